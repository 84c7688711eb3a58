/* Calls NAME for XLA: a handler of XLA's foreign functions (FFI), on the stream and in the context that XLA uses. It
   allocates nothing and does not wait, so XLA may capture it in a CUDA graph. */

#include "NAME.c"

#include <pthread.h>
#include <xla/ffi/api/c_api.h>

#define DSL_SEEN __attribute__((visibility("default")))
#define DSL_DEVICES 64
#define DSL_INPUTS INPUTS
#define DSL_OUTPUTS OUTPUTS
#define DSL_NUMBERS BYTES /* bytes of the attribute `numbers` */

/* What all calls of this handler have in common: dims, strides. XLA knows all shapes when it compiles. */
static const NAME_args dsl_planned = ROW;

/* The kernels of each device. XLA may call the handler for several devices at once. */
static NAME_kernels dsl_kernels[DSL_DEVICES];
static pthread_mutex_t dsl_turn = PTHREAD_MUTEX_INITIALIZER;

/* Returns the kernels on the device of the current context, or NULL. */
static const NAME_kernels *dsl_of_device(dsl_status *status)
{
    CUdevice device = 0;
    CUresult result = cuCtxGetDevice(&device);
    NAME_kernels *kernels;
    int code = DSL_OK;
    if (result != CUDA_SUCCESS) {
        dsl_driver(status, result, "asking for the device of the current context");
        return NULL;
    }
    if (device < 0 || device >= DSL_DEVICES) {
        dsl_fail(status, DSL_ARGUMENT, "the handler knows %d devices, and this is device %d", DSL_DEVICES, (int)device);
        return NULL;
    }
    kernels = &dsl_kernels[device];
    pthread_mutex_lock(&dsl_turn);
    if (!kernels->loaded)
        code = NAME_load(kernels, status);
    pthread_mutex_unlock(&dsl_turn);
    return code == DSL_OK ? kernels : NULL;
}

/* Reads the numbers of a call from the bytes of the attribute. */
static void dsl_set_numbers(NAME_args *args, const unsigned char *numbers)
{
    (void)args, (void)numbers;
NUMBERS
}

/* Loads the kernels on the device of the current context, and checks that they take the call. `sizes` are the bytes of
   scratch memory that it needs: its workspace, and what it needs filled with zeros. Returns 0, or says why not. */
DSL_SEEN int dsl_xla_prepare(const unsigned char *numbers, size_t *sizes, char *text, size_t room)
{
    NAME_args args = dsl_planned;
    dsl_status status;
    const NAME_kernels *kernels = dsl_of_device(&status);
    int code = DSL_DRIVER;
    if (kernels != NULL) {
        dsl_set_numbers(&args, numbers);
PLACES
        // WORKSPACE BEGIN
        NAME_sizes found = {0, 0};
        // WORKSPACE END
        code = dsl_dispatch(kernels, NULL, &args, SIZES, 0, &status);
        // WORKSPACE BEGIN
        sizes[0] = found.workspace;
        sizes[1] = found.zeros;
        // WORKSPACE END
    }
    (void)sizes;
    if (code != DSL_OK)
        snprintf(text, room, "%s", status.text);
    return code;
}

static XLA_FFI_Error *dsl_xla_refuse(const XLA_FFI_Api *api, XLA_FFI_Error_Code code, const char *text)
{
    XLA_FFI_Error_Create_Args made = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, text, code};
    return api->XLA_FFI_Error_Create(&made);
}

static XLA_FFI_Error *dsl_xla_failed(const XLA_FFI_Api *api, const dsl_status *status)
{
    const int is_argument = status->code == DSL_ARGUMENT || status->code == DSL_OTHER_CALL;
    return dsl_xla_refuse(api, is_argument ? XLA_FFI_Error_Code_INVALID_ARGUMENT : XLA_FFI_Error_Code_INTERNAL,
                      status->text);
}

/* Says which version of XLA's interface the handler has, and that its launches may be captured. */
static XLA_FFI_Error *dsl_xla_describe(const XLA_FFI_CallFrame *frame)
{
    XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)frame->extension_start)->metadata;
    if (metadata->struct_size < XLA_FFI_Metadata_STRUCT_SIZE)
        return dsl_xla_refuse(frame->api, XLA_FFI_Error_Code_UNIMPLEMENTED, "XLA is older than the handler");
    metadata->api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
    metadata->api_version.extension_start = NULL;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    metadata->traits = XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE;
    return NULL;
}

/* Returns the bytes of the attribute `numbers`, or NULL. */
static const unsigned char *dsl_xla_numbers(const XLA_FFI_Attrs *attrs)
{
    static const char name[] = "numbers";
    for (int64_t i = 0; i < attrs->size; i++) {
        const XLA_FFI_Array *array = attrs->attrs[i];
        if (attrs->types[i] == XLA_FFI_AttrType_ARRAY && attrs->names[i]->len == sizeof name - 1 &&
            memcmp(attrs->names[i]->ptr, name, sizeof name - 1) == 0 && array->dtype == XLA_FFI_DataType_U8 &&
            array->size == DSL_NUMBERS)
            return array->data;
    }
    return NULL;
}

/* The address of a buffer. An array without elements may have none, and 0 stands for an array that is not given. */
DSL_UNUSED static CUdeviceptr dsl_xla_address(void *buffer)
{
    void *data = ((XLA_FFI_Buffer *)buffer)->data;
    return data == NULL ? 256 : (CUdeviceptr)(uintptr_t)data;
}

// WORKSPACE BEGIN
/* The scratch memory in a buffer that has 256 bytes more: XLA aligns to fewer than the exported function asks for. */
static CUdeviceptr dsl_xla_scratch(void *buffer, size_t *size)
{
    const XLA_FFI_Buffer *found = buffer;
    *size = found->dims[0] > 256 ? (size_t)(found->dims[0] - 256) : 0;
    return ((CUdeviceptr)(uintptr_t)found->data + 255) / 256 * 256;
}
// WORKSPACE END

/* Launches the kernels of a call, in the current context. */
static XLA_FFI_Error *dsl_xla_launch(const XLA_FFI_CallFrame *frame, CUstream stream)
{
    NAME_args args = dsl_planned;
    dsl_status status;
    const NAME_kernels *kernels = dsl_of_device(&status);
    const unsigned char *numbers = dsl_xla_numbers(&frame->attrs);
    if (kernels == NULL)
        return dsl_xla_failed(frame->api, &status);
    if (frame->stage == XLA_FFI_ExecutionStage_INITIALIZE) /* buffers may be empty before the next stage */
        return NULL;
    if (frame->args.size != DSL_INPUTS || frame->rets.size != DSL_OUTPUTS || numbers == NULL)
        return dsl_xla_refuse(frame->api, XLA_FFI_Error_Code_INTERNAL, "XLA passes other arguments than NAME has");
    dsl_set_numbers(&args, numbers);
BUFFERS
    // WORKSPACE BEGIN
    args.workspace = dsl_xla_scratch(frame->rets.rets[DSL_OUTPUTS - 2], &args.workspace_bytes);
    args.zeros = dsl_xla_scratch(frame->rets.rets[DSL_OUTPUTS - 1], &args.zeros_bytes);
    if (args.zeros_bytes != 0) {
        const CUresult result = cuMemsetD8Async(args.zeros, 0, args.zeros_bytes, stream);
        if (result != CUDA_SUCCESS) {
            dsl_driver(&status, result, "zeroing a workspace");
            return dsl_xla_failed(frame->api, &status);
        }
    }
    // WORKSPACE END
    return NAME(kernels, stream, &args, &status) == DSL_OK ? NULL : dsl_xla_failed(frame->api, &status);
}

/* XLA calls it to learn what it is, before the first execution on a device, and for each execution. */
DSL_SEEN XLA_FFI_Error *dsl_xla_handler(XLA_FFI_CallFrame *frame)
{
    XLA_FFI_Error *error;
    if (frame->extension_start != NULL && frame->extension_start->type == XLA_FFI_Extension_Metadata)
        return dsl_xla_describe(frame);
    // STREAM BEGIN
    XLA_FFI_Stream_Get_Args asked = {XLA_FFI_Stream_Get_Args_STRUCT_SIZE, NULL, frame->ctx, NULL};
    CUcontext context = NULL;
    dsl_status status;
    CUresult result;
    error = frame->api->XLA_FFI_Stream_Get(&asked);
    if (error != NULL)
        return error;
    result = cuStreamGetCtx(asked.stream, &context);
    if (result == CUDA_SUCCESS)
        result = cuCtxPushCurrent(context);
    if (result != CUDA_SUCCESS) {
        dsl_driver(&status, result, "entering the context of XLA's stream");
        return dsl_xla_failed(frame->api, &status);
    }
    error = dsl_xla_launch(frame, asked.stream);
    cuCtxPopCurrent(&context);
    // STREAM END
    // HOST BEGIN
    error = dsl_xla_launch(frame, NULL);
    // HOST END
    return error;
}
