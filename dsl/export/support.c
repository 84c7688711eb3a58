/* The functions that all exported kernels share. Each exported C file begins with a copy of this text. */

#if defined(__GNUC__) || defined(__clang__)
#define DSL_UNUSED __attribute__((unused))
#define DSL_FORMAT(text, rest) __attribute__((format(printf, text, rest)))
#else
#define DSL_UNUSED
#define DSL_FORMAT(text, rest)
#endif

/* Elements that are indexed with 32 bits: the rest of the range is for slices beyond the edge of an array. */
#define DSL_MOST_INT32 ((INT64_C(1) << 31) - (INT64_C(1) << 21))

/* Code of one kernel for one target: machine code if there is any, and PTX. */
typedef struct dsl_code {
    int target, threads, cluster, most_registers, has_record;
    unsigned shared_bytes;
    const char *entry, *label;
    const unsigned char *cubin, *ptx;
} dsl_code;

/* A target, such as sm_90a: number 90, letter 'a'. A plain target has the letter 0. */
typedef struct dsl_target {
    int number;
    char letter;
    const char *name;
} dsl_target;

/* An array argument. Strides are in elements. */
typedef struct dsl_array {
    const char *name;
    CUdeviceptr data;
    int64_t bytes; /* of an element */
    int rank;
    int64_t extents[DSL_AXES], strides[DSL_AXES];
} dsl_array;

/* What a kernel does with an array. */
typedef struct dsl_use {
    int written, strided, index_bits;
    int64_t align;
} dsl_use;

DSL_UNUSED DSL_FORMAT(3, 4) static int dsl_fail(dsl_status *status, int code, const char *format, ...)
{
    va_list rest;
    if (status != NULL) {
        status->code = code;
        va_start(rest, format);
        vsnprintf(status->text, sizeof status->text, format, rest);
        va_end(rest);
    }
    return code;
}

/* Adds the reason why one of the exported calls does not take the arguments. What has no room is left out. */
DSL_UNUSED static void dsl_note(char *notes, size_t size, int number, const char *text)
{
    char head[32];
    size_t used = strlen(notes), count;
    snprintf(head, sizeof head, "; call %d: ", number);
    for (const char *parts[] = {head, text}, **part = parts; part < parts + 2; part++) {
        count = strlen(*part);
        count = count < size - 1 - used ? count : size - 1 - used;
        memcpy(notes + used, *part, count);
        used += count;
    }
    notes[used] = 0;
}

DSL_UNUSED static int dsl_driver(dsl_status *status, CUresult result, const char *doing)
{
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS)
        return DSL_OK;
    if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL)
        name = "an unknown error";
    if (cuGetErrorString(result, &text) != CUDA_SUCCESS || text == NULL)
        text = "";
    if (status != NULL)
        status->driver = result;
    return dsl_fail(status, DSL_DRIVER, "%s: %s: %s", doing, name, text);
}

/* ---- expressions: 64-bit integers. An operation without a value sets *bad. ---- */

DSL_UNUSED static int64_t dsl_bad(int *bad)
{
    *bad = 1;
    return 0;
}

DSL_UNUSED static int64_t dsl_add(int *bad, int64_t a, int64_t b)
{
    return (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) ? dsl_bad(bad) : a + b;
}

DSL_UNUSED static int64_t dsl_sub(int *bad, int64_t a, int64_t b)
{
    return (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b) ? dsl_bad(bad) : a - b;
}

DSL_UNUSED static int64_t dsl_mul(int *bad, int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return 0;
    if (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a) : (b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a))
        return dsl_bad(bad);
    return a * b;
}

/* Division that rounds down. */
DSL_UNUSED static int64_t dsl_floor(int *bad, int64_t a, int64_t b)
{
    if (b == 0 || (a == INT64_MIN && b == -1))
        return dsl_bad(bad);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

DSL_UNUSED static int64_t dsl_mod(int *bad, int64_t a, int64_t b)
{
    if (b == 0)
        return dsl_bad(bad);
    if (b == -1)
        return 0;
    return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
}

DSL_UNUSED static int64_t dsl_divide(int *bad, int64_t a, int64_t b)
{
    return b == 0 || dsl_mod(bad, a, b) != 0 ? dsl_bad(bad) : dsl_floor(bad, a, b);
}

/* Division that rounds up. */
DSL_UNUSED static int64_t dsl_cdiv(int *bad, int64_t a, int64_t b)
{
    const int64_t down = dsl_floor(bad, a, b);
    return *bad ? 0 : down + (dsl_mod(bad, a, b) != 0);
}

DSL_UNUSED static int64_t dsl_min(int64_t a, int64_t b)
{
    return b < a ? b : a;
}

DSL_UNUSED static int64_t dsl_max(int64_t a, int64_t b)
{
    return b > a ? b : a;
}

DSL_UNUSED static int64_t dsl_next_pow2(int *bad, int64_t n)
{
    int64_t power = 1;
    while (power < n) {
        if (power > INT64_MAX / 2)
            return dsl_bad(bad);
        power *= 2;
    }
    return power;
}

DSL_UNUSED static int64_t dsl_pow2_divisor(int *bad, int64_t n)
{
    return n == 0 ? INT64_C(1) << 62 : n == INT64_MIN ? dsl_bad(bad) : n & -n;
}

DSL_UNUSED static int64_t dsl_log2(int *bad, int64_t n)
{
    int64_t power = 0;
    if (n <= 0 || (n & (n - 1)) != 0)
        return dsl_bad(bad);
    while (n >> power != 1)
        power++;
    return power;
}

DSL_UNUSED static int64_t dsl_left(int *bad, int64_t a, int64_t b)
{
    if (b < 0 || b >= 64)
        return dsl_bad(bad);
    return b == 63 ? (a == 0 ? 0 : a == -1 ? INT64_MIN : dsl_bad(bad)) : dsl_mul(bad, a, INT64_C(1) << b);
}

DSL_UNUSED static int64_t dsl_right(int *bad, int64_t a, int64_t b)
{
    if (b < 0 || b >= 64)
        return dsl_bad(bad);
    return b == 63 ? (a < 0 ? -1 : 0) : dsl_floor(bad, a, INT64_C(1) << b);
}

DSL_UNUSED static double dsl_finite(int *bad, double value)
{
    return value - value == 0.0 ? value : (double)dsl_bad(bad);
}

DSL_UNUSED static double dsl_ratio(int *bad, double a, double b)
{
    return b == 0.0 ? (double)dsl_bad(bad) : dsl_finite(bad, a / b);
}

DSL_UNUSED static double dsl_floor_ratio(int *bad, double a, double b)
{
    return b == 0.0 ? (double)dsl_bad(bad) : floor(a / b);
}

DSL_UNUSED static double dsl_mod_ratio(int *bad, double a, double b)
{
    double rest;
    if (b == 0.0)
        return (double)dsl_bad(bad);
    rest = fmod(a, b);
    return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}

DSL_UNUSED static double dsl_log2_of(int *bad, double value)
{
    return value > 0.0 ? log2(value) : (double)dsl_bad(bad);
}

/* Equality that distinguishes 0.0 from -0.0, and treats NaN as equal to NaN. */
DSL_UNUSED static int dsl_same(double a, double b)
{
    return a != a ? b != b : a == b && !signbit(a) == !signbit(b);
}

/* The value of an f16, given by its bits. */
DSL_UNUSED static double dsl_f16(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 0 ? ldexp(fraction, -24)
                        : exponent < 31 ? ldexp(fraction + 1024, exponent - 25)
                        : fraction ? (double)NAN : (double)INFINITY;
    return bits >> 15 ? -size : size;
}

/* The value of a bf16, given by its bits. */
DSL_UNUSED static double dsl_bf16(uint16_t bits)
{
    const uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* ---- arrays ---- */

DSL_UNUSED static int64_t dsl_size(const dsl_array *x)
{
    int64_t size = 1;
    for (int i = 0; i < x->rank; i++)
        size *= x->extents[i];
    return size;
}

DSL_UNUSED static int dsl_is_contiguous(const dsl_array *x)
{
    int64_t expected = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        if (x->extents[i] != 1 && x->strides[i] != expected)
            return 0;
        expected *= x->extents[i];
    }
    return 1;
}

/* The bytes from the first to behind the last element, relative to element (0, 0, ...). */
DSL_UNUSED static void dsl_span(const dsl_array *x, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    for (int i = 0; i < x->rank; i++) {
        const int64_t step = (x->extents[i] - 1) * x->strides[i];
        *(step < 0 ? low : high) += step;
    }
    *low *= x->bytes;
    *high = (*high + 1) * x->bytes;
}

/* Whether the strides leave open if two elements have the same address. */
DSL_UNUSED static int dsl_may_overlap_itself(const dsl_array *x)
{
    int64_t reach = 0, last_stride = -1;
    int last = -1;
    for (int turn = 0; turn < x->rank; turn++) {
        int next = -1;
        int64_t stride = 0;
        for (int i = 0; i < x->rank; i++) { /* axes in the order of their strides */
            const int64_t own = x->strides[i] < 0 ? -x->strides[i] : x->strides[i];
            const int is_left = own > last_stride || (own == last_stride && i > last);
            if (is_left && (next < 0 || own < stride)) {
                next = i;
                stride = own;
            }
        }
        if (x->extents[next] > 1 && stride <= reach)
            return 1;
        reach += (x->extents[next] - 1) * stride;
        last = next;
        last_stride = stride;
    }
    return 0;
}

/* Checks that extents and offsets of an array can be computed with 64 bits. */
DSL_UNUSED static int dsl_check_extents(dsl_status *status, const dsl_array *x)
{
    double reach = 0.0, size = 1.0;
    for (int i = 0; i < x->rank; i++) {
        if (x->extents[i] < 0)
            return dsl_fail(status, DSL_ARGUMENT, "%s: axis %d has %lld elements", x->name, i,
                            (long long)x->extents[i]);
        reach += fabs((double)x->strides[i]) * (double)x->extents[i];
        size *= (double)dsl_max(1, x->extents[i]);
    }
    if (reach * (double)x->bytes >= 4611686018427387904.0 || size * (double)x->bytes >= 4611686018427387904.0)
        return dsl_fail(status, DSL_ARGUMENT, "%s reaches over more than 2^62 bytes", x->name);
    return DSL_OK;
}

DSL_UNUSED static int dsl_check_array(dsl_status *status, const dsl_array *x, dsl_use use, const char *label)
{
    const int64_t size = dsl_size(x);
    int64_t reach = 0, low, high;
    if (size != 0 && x->data == 0)
        return dsl_fail(status, DSL_ARGUMENT, "%s: %s has no memory", label, x->name);
    if (size != 0 && x->data % (CUdeviceptr)x->bytes != 0)
        return dsl_fail(status, DSL_ARGUMENT, "%s: %s begins inside an element", label, x->name);
    if (size != 0 && x->data % (CUdeviceptr)use.align != 0)
        return dsl_fail(status, DSL_OTHER_CALL, "%s: %s is not aligned to %lld bytes", label, x->name,
                        (long long)use.align);
    if (!use.strided && size != 0 && !dsl_is_contiguous(x))
        return dsl_fail(status, DSL_ARGUMENT, "%s: %s is not row-major", label, x->name);
    if (use.written && size != 0 && dsl_may_overlap_itself(x))
        return dsl_fail(status, DSL_ARGUMENT, "%s: %s is written, and its elements share memory", label, x->name);
    for (int i = 0; i < x->rank; i++) {
        reach = dsl_max(reach, x->extents[i]);
        if (use.strided)
            reach = dsl_max(reach, x->strides[i] < 0 ? -x->strides[i] : x->strides[i]);
    }
    if (size != 0) {
        dsl_span(x, &low, &high);
        reach = dsl_max(reach, dsl_max(-low, high) / x->bytes);
    }
    if (use.index_bits == 32 && reach > DSL_MOST_INT32)
        return dsl_fail(status, DSL_OTHER_CALL, "%s: %s reaches over %lld elements, more than 32 bits count", label,
                        x->name, (long long)reach);
    return DSL_OK;
}

/* Checks two arrays of which at least one is written. in_place: they may be one array. trusted: the caller says that
   elements of strided arrays share no memory. */
DSL_UNUSED static int dsl_check_apart(dsl_status *status, const dsl_array *a, const dsl_array *b, int in_place,
                                      int trusted, const char *label)
{
    int64_t low_a, high_a, low_b, high_b;
    int lie_alike = a->bytes == b->bytes && a->rank == b->rank, gaps;
    if (dsl_size(a) == 0 || dsl_size(b) == 0)
        return DSL_OK;
    dsl_span(a, &low_a, &high_a);
    dsl_span(b, &low_b, &high_b);
    if (a->data + (CUdeviceptr)high_a <= b->data + (CUdeviceptr)low_b ||
        b->data + (CUdeviceptr)high_b <= a->data + (CUdeviceptr)low_a)
        return DSL_OK;
    for (int i = 0; lie_alike && i < a->rank; i++)
        lie_alike = a->extents[i] == b->extents[i] && a->strides[i] == b->strides[i];
    if (in_place && lie_alike && a->data == b->data)
        return DSL_OK;
    gaps = high_a - low_a != dsl_size(a) * a->bytes || high_b - low_b != dsl_size(b) * b->bytes;
    if (gaps && trusted)
        return DSL_OK;
    return dsl_fail(status, DSL_ARGUMENT, "%s: the memory of %s and %s overlaps, and one of them is written%s", label,
                    a->name, b->name, gaps ? " (apart = 1 says that their elements do not)" : "");
}

DSL_UNUSED static int dsl_check_grid(dsl_status *status, const int64_t *grid, int cluster, const char *label)
{
    for (int i = 0; i < 3; i++)
        if (grid[i] < 0 || grid[i] > (i == 0 ? INT64_C(2147483647) : INT64_C(65535)))
            return dsl_fail(status, DSL_ARGUMENT, "%s: the grid has %lld blocks along %c", label, (long long)grid[i],
                            "xyz"[i]);
    if (grid[0] % cluster != 0)
        return dsl_fail(status, DSL_OTHER_CALL, "%s: the grid has %lld blocks along x, not a multiple of %d", label,
                        (long long)grid[0], cluster);
    return DSL_OK;
}

/* Adds a piece of memory to a workspace and returns its place. Pieces begin at multiples of 256 bytes. */
DSL_UNUSED static size_t dsl_piece(int *bad, size_t *size, int64_t elements, int64_t bytes)
{
    const size_t at = *size;
    const int64_t all = dsl_add(bad, dsl_mul(bad, elements, bytes), 255);
    *size = (size_t)dsl_add(bad, (int64_t)at, *bad ? 0 : all / 256 * 256);
    return at;
}

/* ---- tensor maps ---- */

typedef struct dsl_map {
    CUtensorMapDataType type;
    CUtensorMapSwizzle swizzle;
    int rank, axes[5], written; /* axes: innermost first. written: the map is for stores. */
    cuuint32_t box[5];          /* of an im2col map: channels, pixels */
    int window, lower[3], upper[3];
    cuuint32_t steps[3];
} dsl_map;

/* The axes of the array that a map's axis joins: the axis itself, and those before it that the map leaves out. */
DSL_UNUSED static int dsl_first_joined(const dsl_map *map, int axis)
{
    int first = 0;
    for (int i = 0; i < map->rank; i++)
        if (map->axes[i] < axis && map->axes[i] + 1 > first)
            first = map->axes[i] + 1;
    return first;
}

/* Drivers up to CUDA 13.1 set a wrong bit in the map of an array with fewer than 128 KiB. */
DSL_UNUSED static void dsl_mend_map(CUtensorMap *made, const dsl_map *map, const cuuint64_t *extents,
                                    const cuuint64_t *strides, int64_t bytes)
{
    uint64_t span = (extents[0] - 1) * (uint64_t)bytes + (uint64_t)bytes, words[16];
    int version = 0;
    for (int i = 1; i < map->rank; i++)
        span += (extents[i] - 1) * strides[i - 1];
    if (span >= (UINT64_C(1) << 17) || cuDriverGetVersion(&version) != CUDA_SUCCESS || version > 13010)
        return;
    memcpy(words, made, sizeof words);
    words[1] &= ~(UINT64_C(1) << 21);
    memcpy(made, words, sizeof words);
}

DSL_UNUSED static int dsl_encode(dsl_status *status, CUtensorMap *made, const dsl_array *x, const dsl_map *map,
                                 const char *label)
{
    cuuint64_t extents[5], strides[5] = {16, 16, 16, 16, 16};
    const cuuint32_t ones[5] = {1, 1, 1, 1, 1};
    CUresult result;
    for (int i = 0; i < map->rank; i++) {
        const int axis = map->axes[i], first = dsl_first_joined(map, axis);
        int64_t extent = 1, stride = x->strides[axis];
        for (int j = first; j <= axis; j++)
            extent *= x->extents[j];
        for (int j = axis; j >= first; j--)
            if (x->extents[j] > 1) { /* an axis of one element may have any stride */
                stride = x->strides[j];
                break;
            }
        stride *= x->bytes;
        if (extent < 1 || extent > (INT64_C(1) << 31))
            return dsl_fail(status, DSL_OTHER_CALL, "%s: axis %d of %s has %lld elements, too few or many for TMA",
                            label, axis, x->name, (long long)extent);
        if (extent > 1 && (i == 0 ? stride != x->bytes : stride % 16 != 0 || stride < 0 || stride >> 40 != 0))
            return dsl_fail(status, DSL_OTHER_CALL, "%s: axis %d of %s has a stride of %lld bytes, illegal for TMA",
                            label, axis, x->name, (long long)stride);
        if (i == 0 && map->written && extent * x->bytes % 16 != 0)
            return dsl_fail(status, DSL_OTHER_CALL, "%s: rows of %s have %lld bytes, TMA stores write whole 16 bytes",
                            label, x->name, (long long)(extent * x->bytes));
        if (map->window && i > 0 && i < map->rank - 1 && extent - 1 + map->upper[i - 1] < map->lower[i - 1])
            return dsl_fail(status, DSL_OTHER_CALL, "%s: axis %d of %s is smaller than the filter", label, axis,
                            x->name);
        extents[i] = (cuuint64_t)extent;
        if (i > 0 && extent > 1)
            strides[i - 1] = (cuuint64_t)stride;
    }
    if (map->window) {
        cuuint32_t steps[5] = {1, 1, 1, 1, 1};
        for (int i = 0; i < map->rank - 2; i++)
            steps[i + 1] = map->steps[i];
        result = cuTensorMapEncodeIm2col(made, map->type, (cuuint32_t)map->rank, (void *)(uintptr_t)x->data, extents,
                                         strides, map->lower, map->upper, map->box[0], map->box[1], steps,
                                         CU_TENSOR_MAP_INTERLEAVE_NONE, map->swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                         CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    } else
        result = cuTensorMapEncodeTiled(made, map->type, (cuuint32_t)map->rank, (void *)(uintptr_t)x->data, extents,
                                        strides, map->box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, map->swizzle,
                                        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return dsl_driver(status, result, "encoding a tensor map");
    dsl_mend_map(made, map, extents, strides, x->bytes);
    return DSL_OK;
}

/* ---- loading and launching ---- */

/* Whether machine code for a target runs on a device of capability `number` (90 for 9.0), or with jit: its PTX. */
DSL_UNUSED static int dsl_runs(const dsl_target *target, int number, int jit)
{
    if (target->letter == 'a')
        return number == target->number;
    if (target->letter == 'f' || !jit)
        return number / 10 == target->number / 10 && number >= target->number;
    return number >= target->number;
}

/* The number of the best target for the current device, or -1. */
DSL_UNUSED static int dsl_pick(const dsl_target *targets, int count, int number)
{
    int best = -1;
    for (int i = 0; i < count; i++) {
        if (!dsl_runs(&targets[i], number, 1))
            continue;
        if (best < 0 || targets[i].number > targets[best].number ||
            (targets[i].number == targets[best].number && targets[i].letter != 0 &&
             (targets[best].letter == 0 || targets[i].letter < targets[best].letter)))
            best = i;
    }
    return best;
}

DSL_UNUSED static int dsl_load_module(dsl_status *status, CUmodule *module, const dsl_code *code, int runs)
{
    CUjit_option options[3] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_MAX_REGISTERS};
    char log[1024] = "";
    void *values[3];
    CUresult result;
    values[0] = log;
    values[1] = (void *)(uintptr_t)sizeof log;
    values[2] = (void *)(uintptr_t)code->most_registers;
    if (runs && code->cubin != NULL && cuModuleLoadData(module, code->cubin) == CUDA_SUCCESS)
        return DSL_OK;
    result = cuModuleLoadDataEx(module, code->ptx, code->most_registers ? 3U : 2U, options, values);
    if (result != CUDA_SUCCESS && log[0] != 0)
        return dsl_fail(status, DSL_DRIVER, "%s: the driver refuses the PTX: %s", code->label, log);
    return dsl_driver(status, result, "loading a module");
}

/* Fills in a launch. Attributes are needed for a cluster that the PTX does not state, and for a launch that may start
   before the preceding one has ended. */
DSL_UNUSED static CUresult dsl_launch(const dsl_code *code, CUfunction function, CUstream stream, const int64_t *grid,
                                      int cluster, int overlaps, void **arguments)
{
    CUlaunchAttribute attributes[2];
    CUlaunchConfig config;
    unsigned count = 0;
    if (cluster == 1 && !overlaps)
        return cuLaunchKernel(function, (unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2],
                              (unsigned)code->threads, 1, 1, code->shared_bytes, stream, arguments, NULL);
    memset(attributes, 0, sizeof attributes);
    memset(&config, 0, sizeof config);
    if (cluster > 1) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attributes[count].value.clusterDim.x = (unsigned)cluster;
        attributes[count].value.clusterDim.y = 1;
        attributes[count++].value.clusterDim.z = 1;
    }
    if (overlaps) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    config.gridDimX = (unsigned)grid[0];
    config.gridDimY = (unsigned)grid[1];
    config.gridDimZ = (unsigned)grid[2];
    config.blockDimX = (unsigned)code->threads;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = code->shared_bytes;
    config.hStream = stream;
    config.attrs = attributes;
    config.numAttrs = count;
    return cuLaunchKernelEx(&config, function, arguments, NULL);
}

/* How many multiprocessors the clusters of a kernel use at once: some of a GPC's may be left over. */
DSL_UNUSED static int dsl_sms_of_clusters(const dsl_code *code, CUfunction function, int sms)
{
    CUlaunchAttribute attribute;
    CUlaunchConfig config;
    int clusters = 0, blocks = 0, used;
    memset(&attribute, 0, sizeof attribute);
    memset(&config, 0, sizeof config);
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = (unsigned)code->cluster;
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    config.gridDimX = (unsigned)code->cluster;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = (unsigned)code->threads;
    config.sharedMemBytes = code->shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    if (cuOccupancyMaxActiveClusters(&clusters, function, &config) != CUDA_SUCCESS ||
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, code->threads, code->shared_bytes) !=
            CUDA_SUCCESS)
        return sms;
    used = clusters * code->cluster / (blocks > 1 ? blocks : 1);
    return used == 0 || used > sms ? sms : used;
}

/* Loads one kernel: its module, function, the cluster that a launch states, multiprocessors, record of asserts. */
DSL_UNUSED static int dsl_load(dsl_status *status, const dsl_code *code, const dsl_target *target, int number,
                               CUmodule *module, CUfunction *function, int *cluster, int *sms, CUdeviceptr *record)
{
    int width = 0;
    CUresult result = CUDA_SUCCESS;
    if (dsl_load_module(status, module, code, dsl_runs(target, number, 0)) != DSL_OK)
        return DSL_DRIVER;
    result = cuModuleGetFunction(function, *module, code->entry);
    if (result == CUDA_SUCCESS && code->shared_bytes != 0)
        result = cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    (int)code->shared_bytes);
    if (result == CUDA_SUCCESS && code->cluster > 8)
        result = cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    if (result == CUDA_SUCCESS && code->cluster > 1)
        result = cuFuncGetAttribute(&width, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, *function);
    *cluster = code->cluster == 1 || width == code->cluster ? 1 : code->cluster;
    if (result == CUDA_SUCCESS && code->cluster > 1)
        *sms = dsl_sms_of_clusters(code, *function, *sms);
    if (result == CUDA_SUCCESS && code->has_record)
        result = cuMemAlloc(record, 32);
    if (result == CUDA_SUCCESS && code->has_record)
        result = cuMemsetD32(*record, 0, 8);
    return dsl_driver(status, result, code->label);
}
