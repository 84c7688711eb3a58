/* A driver that launches nothing. It writes what it is asked for to the file STUB_LOG, a line each. Device memory is
   that of the host. STUB_DEVICE is the compute capability (90), STUB_SIZES the bytes of each kernel's arguments
   ("entry:8,8,4;entry:8"), STUB_WIDTH the cluster that functions state, STUB_NO_CUBIN refuses machine code. STUB_HOOK is
   the address of a function that runs a launch: it gets the code, the entry and the arguments. */

#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char names[64][256];
static const void *images[64]; /* the code of each function */
static const void *last_image;
static int known;

static FILE *begin(const char *what)
{
    FILE *file = fopen(getenv("STUB_LOG"), "a");
    fprintf(file, "%s", what);
    return file;
}

static void end(FILE *file)
{
    fprintf(file, "\n");
    fclose(file);
}

static int number_of(const char *name, int other)
{
    const char *text = getenv(name);
    return text == NULL ? other : atoi(text);
}

CUresult cuInit(unsigned int flags)
{
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    const int capability = number_of("STUB_DEVICE", 90);
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT           ? 132
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? capability / 10
                                                                         : capability % 10;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = (CUcontext)(uintptr_t)1;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    (void)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    FILE *file = begin("push ");
    fprintf(file, "%llu", (unsigned long long)(uintptr_t)context);
    end(file);
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    *context = NULL;
    end(begin("pop"));
    return CUDA_SUCCESS;
}

/* The context of a stream has the same number. */
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    *context = (CUcontext)stream;
    return stream == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
    *text = error == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == CUDA_SUCCESS ? "no error" : "an error of the stub";
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    if (getenv("STUB_NO_CUBIN") != NULL)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    end(begin(memcmp(image, "\177ELF", 4) == 0 ? "cubin" : "no image"));
    last_image = image;
    *module = (CUmodule)(uintptr_t)1;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
                            void **values)
{
    FILE *file = begin("ptx");
    for (unsigned i = 0; i < count; i++)
        if (options[i] == CU_JIT_MAX_REGISTERS)
            fprintf(file, " registers %d", (int)(uintptr_t)values[i]);
    fprintf(file, " %s", strstr(image, ".version") == NULL || strstr(image, "//dsl") != NULL ? "wrong" : "right");
    end(file);
    last_image = image;
    *module = (CUmodule)(uintptr_t)1;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    (void)module;
    end(begin("unload"));
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    (void)module;
    snprintf(names[known], sizeof names[known], "%s", name);
    images[known] = last_image;
    *function = (CUfunction)names[known++];
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    FILE *file = begin("attribute ");
    fprintf(file, "%s %d %d", (const char *)function, (int)attribute, value);
    end(file);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    (void)function;
    *value = attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH ? number_of("STUB_WIDTH", 0) : 0;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *memory, size_t bytes)
{
    FILE *file = begin("alloc ");
    *memory = (CUdeviceptr)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
    fprintf(file, "%llu %zu", *memory, bytes);
    end(file);
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr memory)
{
    free((void *)(uintptr_t)memory);
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8(CUdeviceptr memory, unsigned char value, size_t count)
{
    memset((void *)(uintptr_t)memory, value, count);
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr memory, unsigned char value, size_t count, CUstream stream)
{
    FILE *file = begin("memset ");
    (void)stream;
    fprintf(file, "%llu %d %zu", memory, value, count);
    end(file);
    return cuMemsetD8(memory, value, count);
}

CUresult cuMemsetD32(CUdeviceptr memory, unsigned int value, size_t count)
{
    return cuMemsetD8(memory, (unsigned char)value, 4 * count);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config)
{
    (void)function;
    (void)config;
    *clusters = 30;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared)
{
    (void)function;
    (void)threads;
    (void)shared;
    *blocks = 1;
    return CUDA_SUCCESS;
}

static void write_arguments(FILE *file, const char *entry, void **arguments)
{
    const char *all = getenv("STUB_SIZES"), *at = all == NULL ? NULL : strstr(all, entry);
    int number = 0;
    at = at == NULL ? NULL : at + strlen(entry);
    while (at != NULL && (*at == ':' || *at == ',') && at[1] >= '0' && at[1] <= '9') {
        const size_t bytes = strtoul(at + 1, (char **)&at, 10);
        fprintf(file, " ");
        for (size_t i = 0; i < bytes; i++)
            fprintf(file, "%02x", ((const unsigned char *)arguments[number])[i]);
        number++;
    }
}

static void run(CUfunction function, void **arguments)
{
    const char *address = getenv("STUB_HOOK");
    const char *name = (const char *)function;
    union {
        unsigned long long number;
        void (*hook)(const void *, const char *, void **);
    } found;
    if (address == NULL)
        return;
    found.number = strtoull(address, NULL, 10);
    found.hook(images[(name - names[0]) / (long)sizeof names[0]], name, arguments);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int threads_x,
                        unsigned int threads_y, unsigned int threads_z, unsigned int shared, CUstream stream,
                        void **arguments, void **extra)
{
    FILE *file = begin("launch ");
    (void)extra;
    fprintf(file, "%s %u %u %u %u %u %u %u %d 1 0", (const char *)function, x, y, z, threads_x, threads_y, threads_z,
            shared, stream != NULL);
    write_arguments(file, (const char *)function, arguments);
    end(file);
    run(function, arguments);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra)
{
    FILE *file = begin("launch ");
    unsigned cluster = 1;
    int overlaps = 0;
    (void)extra;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            cluster = config->attrs[i].value.clusterDim.x;
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            overlaps = config->attrs[i].value.programmaticStreamSerializationAllowed;
    }
    fprintf(file, "%s %u %u %u %u %u %u %u %d %u %d", (const char *)function, config->gridDimX, config->gridDimY,
            config->gridDimZ, config->blockDimX, config->blockDimY, config->blockDimZ, config->sharedMemBytes,
            config->hStream != NULL, cluster, overlaps);
    write_arguments(file, (const char *)function, arguments);
    end(file);
    run(function, arguments);
    return CUDA_SUCCESS;
}

static void write_list(FILE *file, const void *values, unsigned count, int wide)
{
    for (unsigned i = 0; i < count; i++)
        fprintf(file, "%s%llu", i ? "," : " ",
                wide ? (unsigned long long)((const cuuint64_t *)values)[i] : ((const cuuint32_t *)values)[i]);
}

static void made(CUtensorMap *map, void *address)
{
    memset(map, 0, sizeof *map);
    map->opaque[0] = (cuuint64_t)(uintptr_t)address;
    map->opaque[1] = 0xFFFFFFFF;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    FILE *file = begin("map ");
    fprintf(file, "%d %u %llu", (int)type, rank, (unsigned long long)(uintptr_t)address);
    write_list(file, extents, rank, 1);
    write_list(file, strides, rank > 1 ? rank - 1 : 1, 1);
    write_list(file, box, rank, 0);
    write_list(file, steps, rank, 0);
    fprintf(file, " %d %d %d %d", (int)interleave, (int)swizzle, (int)promotion, (int)fill);
    end(file);
    made(map, address);
    return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                 const cuuint64_t *extents, const cuuint64_t *strides, const int *lower,
                                 const int *upper, cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    FILE *file = begin("map ");
    fprintf(file, "%d %u %llu", (int)type, rank, (unsigned long long)(uintptr_t)address);
    write_list(file, extents, rank, 1);
    write_list(file, strides, rank - 1, 1);
    for (unsigned i = 0; i < rank - 2; i++)
        fprintf(file, "%s%d", i ? "," : " ", lower[i]);
    for (unsigned i = 0; i < rank - 2; i++)
        fprintf(file, "%s%d", i ? "," : " ", upper[i]);
    fprintf(file, " %u %u", channels, pixels);
    write_list(file, steps, rank, 0);
    fprintf(file, " %d %d %d %d", (int)interleave, (int)swizzle, (int)promotion, (int)fill);
    end(file);
    made(map, address);
    return CUDA_SUCCESS;
}
