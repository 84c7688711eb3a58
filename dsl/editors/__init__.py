"""Colours of `.tile` text in editors and pages: the words and rules, a lexer of Pygments, a grammar of TextMate."""
