/* XLA as a handler sees it: calls `dsl_xla_handler` for softmax of 4 rows with 32 columns, in the stages that are named
   on the command line, and says what it answers. */

#include "handler.c"

#include <stdlib.h>

static int64_t extents[] = {4, 32};
static char message[2048];

static XLA_FFI_Error *create_error(XLA_FFI_Error_Create_Args *args)
{
    snprintf(message, sizeof message, "error %d: %s", (int)args->errc, args->message);
    return (XLA_FFI_Error *)message;
}

static XLA_FFI_Error *get_stream(XLA_FFI_Stream_Get_Args *args)
{
    XLA_FFI_Error_Create_Args none = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, "no stream", 13};
    args->stream = (void *)args->ctx; /* the test passes the stream as the context of the execution */
    return args->ctx == NULL ? create_error(&none) : NULL;
}

static XLA_FFI_Api api = {.struct_size = sizeof api, .XLA_FFI_Error_Create = create_error, .XLA_FFI_Stream_Get = get_stream};

static XLA_FFI_Buffer buffer_at(void *data)
{
    return (XLA_FFI_Buffer){XLA_FFI_Buffer_STRUCT_SIZE, NULL, XLA_FFI_DataType_F32, data, 2, extents};
}

static const char *call(XLA_FFI_ExecutionStage stage, char *x, char *y, uintptr_t stream, int64_t outputs)
{
    XLA_FFI_Buffer from = buffer_at(x), to = buffer_at(y);
    void *args[] = {&from}, *rets[] = {&to, &to, &to};
    unsigned char numbers[] = {0};
    XLA_FFI_Array array = {XLA_FFI_DataType_U8, 1, numbers};
    XLA_FFI_ByteSpan name = {"numbers", 7}, *names[] = {&name};
    XLA_FFI_AttrType kinds[] = {XLA_FFI_AttrType_ARRAY};
    void *attributes[] = {&array};
    XLA_FFI_CallFrame frame = {.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE, .api = &api, .stage = stage};
    frame.ctx = (XLA_FFI_ExecutionContext *)stream;
    frame.args.size = 1;
    frame.args.args = args;
    frame.rets.size = outputs;
    frame.rets.rets = rets;
    frame.attrs = (XLA_FFI_Attrs){XLA_FFI_Attrs_STRUCT_SIZE, NULL, 1, kinds, names, attributes};
    return dsl_xla_handler(&frame) == NULL ? "ok" : message;
}

static void describe(size_t size)
{
    XLA_FFI_Metadata metadata = {.struct_size = size};
    XLA_FFI_Metadata_Extension extension = {{sizeof extension, XLA_FFI_Extension_Metadata, NULL}, &metadata};
    XLA_FFI_CallFrame frame = {.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE, .api = &api};
    frame.extension_start = &extension.extension_base;
    if (dsl_xla_handler(&frame) != NULL)
        printf("%s\n", message);
    else
        printf("version %d.%d, traits %u\n", metadata.api_version.major_version == XLA_FFI_API_MAJOR,
               metadata.api_version.minor_version == XLA_FFI_API_MINOR, (unsigned)metadata.traits);
}

int main(int count, char **words)
{
    char *x = aligned_alloc(256, 1024), *y = aligned_alloc(256, 1024);
    for (int i = 1; i < count; i++) {
        const char *stage = words[i], *said = NULL;
        if (strcmp(stage, "metadata") == 0)
            describe(XLA_FFI_Metadata_STRUCT_SIZE);
        else if (strcmp(stage, "old") == 0)
            describe(8);
        else if (strcmp(stage, "initialize") == 0)
            said = call(XLA_FFI_ExecutionStage_INITIALIZE, NULL, NULL, 7, 1);
        else if (strcmp(stage, "execute") == 0)
            said = call(XLA_FFI_ExecutionStage_EXECUTE, x, y, 7, 1);
        else if (strcmp(stage, "streamless") == 0)
            said = call(XLA_FFI_ExecutionStage_EXECUTE, x, y, 0, 1);
        else if (strcmp(stage, "unaligned") == 0)
            said = call(XLA_FFI_ExecutionStage_EXECUTE, x + 4, y, 7, 1);
        else if (strcmp(stage, "outputs") == 0)
            said = call(XLA_FFI_ExecutionStage_EXECUTE, x, y, 7, 2);
        if (said != NULL)
            printf("%s\n", said);
    }
    free(x);
    free(y);
    return 0;
}
