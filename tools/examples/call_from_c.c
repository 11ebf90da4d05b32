/* The first call, from C: names, DLPack tensors, numbers and flags; results that the caller ends. */
#include <fla/c_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { T = 100, H = 4, D = 64 };

static int64_t of_tokens[] = {1, T, H, D}, of_heads[] = {1, T, H};

/* A row-major f32 tensor over memory of its own. */
static DLTensor waves(int64_t* shape, int32_t ndim, float scale, float offset) {
  DLTensor tensor = {NULL, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, NULL, NULL, 0};
  size_t count = 1, i;
  for (i = 0; i < (size_t)ndim; ++i) count *= (size_t)shape[i];
  float* numbers = malloc(count * sizeof(float));
  if (numbers == NULL) exit(1);
  for (i = 0; i < count; ++i) numbers[i] = offset + scale * sinf((float)i);
  tensor.data = numbers;
  tensor.shape = shape;
  tensor.ndim = ndim;
  return tensor;
}

int main(void) {
  DLTensor q = waves(of_tokens, 4, 1, 0), k = waves(of_tokens, 4, 1, 0.1f), v = waves(of_tokens, 4, 1, 0),
           g = waves(of_tokens, 4, 0.1f, -0.2f), beta = waves(of_heads, 3, 0.3f, 0.5f);
  fla_argument arguments[] = {fla_tensor("q", &q),       fla_tensor("k", &k),
                              fla_tensor("v", &v),       fla_tensor("g", &g),
                              fla_tensor("beta", &beta), fla_flag("use_qk_l2norm_in_kernel", 1)};
  size_t count = sizeof(arguments) / sizeof(arguments[0]);
  fla_result results[] = {{"out", NULL}, {"final_state", NULL}};
  fla_options original = FLA_OPTIONS_INIT;
  char* text = NULL;
  int i;

  printf("fla %s\n", fla_version());
  if (fla_call("kda.chunk_kda", arguments, count, results, 2, NULL) != FLA_OK) {
    fprintf(stderr, "%s\n", fla_last_error());
    return 1;
  }
  for (i = 0; i < 2; ++i) {
    const DLTensor* tensor = &results[i].tensor->dl_tensor;
    const int64_t* shape = tensor->shape;
    printf("%s: %d x %d x %d x %d, ends with %.4f\n", results[i].name, (int)shape[0], (int)shape[1],
           (int)shape[2], (int)shape[3],
           (double)((const float*)tensor->data)[shape[0] * shape[1] * shape[2] * shape[3] - 1]);
    results[i].tensor->deleter(results[i].tensor); /* the caller's */
  }

  /* Who would take it, on the original kernel alone. */
  original.backend = "original";
  if (fla_explain("kda.chunk_kda", arguments, count, &original, FLA_TEXT, &text) != FLA_OK) return 1;
  printf("%s", text);
  fla_free(text);

  /* What is wrong has a code and a sentence. */
  k.shape = of_heads;
  k.ndim = 3;
  i = fla_call("kda.chunk_kda", arguments, count, results, 2, NULL);
  printf("code %d: %s\n", i, fla_last_error());

  free(q.data);
  free(k.data);
  free(v.data);
  free(g.data);
  free(beta.data);
  return 0;
}
