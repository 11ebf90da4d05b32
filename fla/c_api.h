#ifndef FLA_C_API_H
#define FLA_C_API_H

/* fla from C, and from any language that calls C: every function of every op by its name, with the names of
 * its argument table (fla/ops/<op>/<op>.h; fla_functions() prints all of them). Ops of plugins are found,
 * too.
 *
 *     fla_argument arguments[] = {fla_tensor("q", &q), fla_tensor("k", &k), fla_tensor("v", &v),
 *                                 fla_tensor("g", &g), fla_tensor("beta", &beta)};
 *     fla_result results[] = {{"out", NULL}, {"final_state", NULL}};
 *     fla_status status = fla_call("kda.chunk_kda", arguments, 5, results, 2, NULL);
 *     if (status != FLA_OK) puts(fla_last_error());
 *
 * Errors: functions return a code. FLA_OK is 0; after any other code fla_last_error() has a sentence for
 * people, "kda: k: expected shape [B=1, T=100, H=4, K=64], got [1, 100, 4]". Nothing has run and nothing was
 * written after FLA_INVALID_ARGUMENT and FLA_CONFIG_ERROR. No C++ exception gets out.
 *
 * Threads: every function may be called from any thread at any time.
 *
 * Stability: a program that was compiled with this header runs with every later libfla of the same soname.
 * Functions, codes, kinds and the layout of fla_argument and fla_result stay as they are; fla_options may
 * grow at its end, which `size` tells. fla_c_api_version() says what the library has. */

#include <stddef.h> /* NOLINT(modernize-deprecated-headers): C */
#include <stdint.h> /* NOLINT(modernize-deprecated-headers): C */

/* DLPack's structs, for programs without dlpack.h; others include that first, from wherever they have it. */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
#ifdef __cplusplus
extern "C" {
#endif
typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13 } DLDeviceType;
typedef enum { kDLInt = 0U, kDLUInt = 1U, kDLFloat = 2U, kDLBfloat = 4U } DLDataTypeCode;
typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code; /* DLDataTypeCode */
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: row-major */
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;
#ifdef __cplusplus
}
#endif
#endif

#if defined(__GNUC__)
#define FLA_C_API __attribute__((visibility("default")))
#else
#define FLA_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define FLA_C_API_VERSION 1u

/* What functions return. */
typedef int32_t fla_status;
enum {
  FLA_OK = 0,
  FLA_INVALID_ARGUMENT = 1, /* a name, an argument or an option is wrong */
  FLA_CONFIG_ERROR = 2,     /* a setting (environment, config file) is wrong */
  FLA_BACKEND_ERROR = 3,    /* a backend failed, or the one that was required refused the call */
  FLA_DEVICE_LOST = 4,      /* the GPU is lost to this process */
  FLA_OUT_OF_MEMORY = 5,
  FLA_INTERNAL_ERROR = 6 /* none of the above: a bug */
};

/* What an argument is; the table of its function says which. */
typedef int32_t fla_kind;
enum { FLA_TENSOR = 1, FLA_NUMBER = 2, FLA_INTEGER = 3, FLA_FLAG = 4 };

/* One argument by its name. A tensor is borrowed: it and its memory must outlive the call, on CUDA the
 * memory must outlive the work on the stream. Dtypes are bf16, f16, f32, i32 and i64, devices CPU and CUDA,
 * dimensions at most 5. What is left out is not listed. */
typedef struct fla_argument {
  const char* name;
  fla_kind kind;
  union {
    const DLTensor* tensor;
    double number;
    int64_t integer;
    int64_t flag; /* 0 or 1 */
  } value;
} fla_argument;

/* A result that the call returns: its name goes in, the tensor comes out. The name is that of the argument
 * that would give memory for it: "out" for o, "final_state", "dq". Listing "final_state" sets
 * output_final_state. The caller owns the tensor and ends it with tensor->deleter(tensor). It is NULL after
 * an error, and for the gradient of an input that the call does not have. */
typedef struct fla_result {
  const char* name;
  DLManagedTensor* tensor;
} fla_result;

/* What a call may set beside its arguments. Begin with FLA_OPTIONS_INIT, or with zeros and `size`. */
typedef struct fla_options {
  size_t size;            /* sizeof(fla_options) */
  void* stream;           /* a cudaStream_t; NULL: the default stream. CPU calls ignore it */
  void* workspace;        /* memory of the call's device, 256-byte aligned; NULL: the call allocates */
  size_t workspace_bytes; /* at least what fla_workspace_size() says */
  const char* backend; /* this one or an error, "original" for the original kernel; NULL: the usual choice */
} fla_options;
#define FLA_OPTIONS_INIT \
  { sizeof(fla_options), NULL, NULL, 0, NULL }

/* Arguments by kind. */
static inline fla_argument fla_tensor(const char* name, const DLTensor* tensor) {
  fla_argument argument;
  argument.name = name;
  argument.kind = FLA_TENSOR;
  argument.value.tensor = tensor;
  return argument;
}
static inline fla_argument fla_number(const char* name, double number) {
  fla_argument argument;
  argument.name = name;
  argument.kind = FLA_NUMBER;
  argument.value.number = number;
  return argument;
}
static inline fla_argument fla_integer(const char* name, int64_t integer) {
  fla_argument argument;
  argument.name = name;
  argument.kind = FLA_INTEGER;
  argument.value.integer = integer;
  return argument;
}
static inline fla_argument fla_flag(const char* name, int flag) {
  fla_argument argument;
  argument.name = name;
  argument.kind = FLA_FLAG;
  argument.value.flag = flag;
  return argument;
}

/* Calls the function of that name: "op.function", or "op" for the op's front door, which picks the function
 * by the call. A result is written where an argument gives memory for it, returned where `results` lists it,
 * and never both; a call needs one at least. Gradients that are neither given memory nor listed are not
 * computed. CPU calls return when the results are there, CUDA calls when the work is on the stream. */
FLA_C_API fla_status fla_call(const char* function, const fla_argument* arguments, size_t argument_count,
                              fla_result* results, size_t result_count, const fla_options* options);

/* Bytes of workspace with which such a call allocates nothing, whoever takes it; 0 on the CPU. */
FLA_C_API fla_status fla_workspace_size(const char* function, const fla_argument* arguments,
                                        size_t argument_count, size_t* bytes);

/* Who would take such a call, who would not, and why; runs nothing. */
typedef int32_t fla_format;
enum { FLA_TEXT = 1, FLA_JSON = 2 };
FLA_C_API fla_status fla_explain(const char* function, const fla_argument* arguments, size_t argument_count,
                                 const fla_options* options, fla_format format, char** text);

/* All functions with their arguments and results, as JSON: {"functions":[{"name":"kda.chunk_kda","arguments":
 * [{"name":"q","kind":"tensor","need":"required","dtypes":"…","shape":"B T H K","doc":"…"}, …],"results":
 * ["out","final_state"]}, …]}. Fields may be added. For programs that make bindings. */
FLA_C_API fla_status fla_functions(char** json);

/* Gives back a text that a function above returned. NULL is allowed. */
FLA_C_API void fla_free(char* text);

/* What the last function that failed on this thread had to say; "" when none has. Holds until the next one
 * fails on this thread. Not to be freed. */
FLA_C_API const char* fla_last_error(void);

/* FLA_C_API_VERSION and the version ("0.1.0") of the library that runs. */
FLA_C_API uint32_t fla_c_api_version(void);
FLA_C_API const char* fla_version(void);

#ifdef __cplusplus
}
#endif

#endif
