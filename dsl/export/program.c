/* Calls NAME with arrays from files: NAME_program FOLDER [CALL]. For each array that the call reads, FOLDER/ARRAY.bin
   holds its bytes, from the first element to the last. The program writes those of each array that the call writes to
   FOLDER/ARRAY.out. CALL is the number of an exported call, by default 1. */

#include "NAME.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The arrays: name, place in the arguments, whether they are read, whether they are written. */
static const struct {
    const char *name;
    size_t place;
    int read, written;
} arrays[] = {ARRAYS};

/* The arguments of the calls, but for arrays, and the bytes of their arrays. An absent array has 0 bytes. */
static const NAME_args calls[] = {
ROWS
};
static const size_t bytes[][COUNT] = {
BYTES
};

static void check(CUresult result, const char *doing)
{
    const char *text = "";
    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorString(result, &text);
    fprintf(stderr, "%s: %s\n", doing, text);
    exit(1);
}

static void check_status(int code, const dsl_status *status)
{
    if (code == DSL_OK)
        return;
    fprintf(stderr, "%s\n", status->text);
    exit(1);
}

static FILE *open_file(const char *folder, const char *name, const char *suffix, const char *mode)
{
    char path[4096];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, suffix);
    file = fopen(path, mode);
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

static CUdeviceptr allocate(size_t size)
{
    CUdeviceptr memory = 0;
    if (size != 0) {
        check(cuMemAlloc(&memory, size), "allocating memory");
        check(cuMemsetD8(memory, 0, size), "clearing memory");
    }
    return memory;
}

int main(int count, char **words)
{
    const size_t known = sizeof calls / sizeof *calls;
    const size_t call = count == 3 ? (size_t)strtoul(words[2], NULL, 10) - 1 : 0;
    CUdeviceptr memory[COUNT];
    NAME_kernels kernels;
    dsl_status status;
    NAME_args args;
    CUdevice device;
    CUcontext context;

    if (count < 2 || count > 3 || call >= known) {
        fprintf(stderr, "NAME_program FOLDER [CALL], from 1 to %zu\n", known);
        return 2;
    }
    check(cuInit(0), "starting the driver");
    check(cuDeviceGet(&device, 0), "asking for device 0");
    check(cuDevicePrimaryCtxRetain(&context, device), "making a context");
    check(cuCtxSetCurrent(context), "making the context current");
    check_status(NAME_load(&kernels, &status), &status);

    args = calls[call];
    for (size_t i = 0; i < COUNT; i++) {
        memory[i] = allocate(bytes[call][i]);
        memcpy((char *)&args + arrays[i].place, &memory[i], sizeof memory[i]);
        if (bytes[call][i] != 0 && arrays[i].read) {
            char *data = malloc(bytes[call][i]);
            FILE *file = open_file(words[1], arrays[i].name, "bin", "rb");
            if (data == NULL || fread(data, 1, bytes[call][i], file) != bytes[call][i]) {
                fprintf(stderr, "%s.bin has fewer than %zu bytes\n", arrays[i].name, bytes[call][i]);
                return 1;
            }
            fclose(file);
            check(cuMemcpyHtoD(memory[i], data, bytes[call][i]), "copying an array");
            free(data);
        }
    }
    // WORKSPACE BEGIN
    check_status(NAME_workspace(&kernels, &args, &args.workspace_bytes, &args.zeros_bytes, &status), &status);
    args.workspace = allocate(args.workspace_bytes);
    args.zeros = allocate(args.zeros_bytes);
    // WORKSPACE END
    check_status(NAME(&kernels, NULL, &args, &status), &status);
    check(cuCtxSynchronize(), "running NAME");
    // RECORD BEGIN
    check_status(NAME_check(&kernels, &status), &status);
    // RECORD END
    for (size_t i = 0; i < COUNT; i++) {
        if (bytes[call][i] != 0 && arrays[i].written) {
            char *data = malloc(bytes[call][i]);
            FILE *file = open_file(words[1], arrays[i].name, "out", "wb");
            if (data == NULL)
                return 1;
            check(cuMemcpyDtoH(data, memory[i], bytes[call][i]), "copying an array");
            if (fwrite(data, 1, bytes[call][i], file) != bytes[call][i] || fclose(file) != 0) {
                perror(arrays[i].name);
                return 1;
            }
            free(data);
        }
        if (memory[i] != 0)
            check(cuMemFree(memory[i]), "freeing memory");
    }
    // WORKSPACE BEGIN
    if (args.workspace != 0)
        check(cuMemFree(args.workspace), "freeing memory");
    if (args.zeros != 0)
        check(cuMemFree(args.zeros), "freeing memory");
    // WORKSPACE END
    check_status(NAME_unload(&kernels, &status), &status);
    check(cuDevicePrimaryCtxRelease(device), "leaving the context");
    printf("NAME: call %zu of %zu\n", call + 1, known);
    return 0;
}
