"""A search that goes from the best point so far to the new points that share the most settings with it.

dsl tune samples/rmsnorm.tile --all --budget 20 --plugin search_nearest.py --search nearest
"""

from dsl.lab.search import Search, search


@search("nearest")
class Nearest(Search):
    """Tries the defaults, then neighbours of the best point, up to four at a time."""

    def ask(self, count):
        fine, fresh = self.fine(), self.fresh()
        if not fine:
            defaults = [point for point in fresh if point.is_default]
            return self.take(defaults or fresh, count)
        best = fine[0].settings

        def apart(point):
            return sum(point.settings.get(name) != value for name, value in best.items())

        return self.take(sorted(fresh, key=apart), min(count, 4))
