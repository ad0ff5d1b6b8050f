/* What programs load with Device::load_library(): plain functions that return nothing. */
#include <stdbool.h>
#include <stdint.h>

void scale(float* out, const float* in, int32_t n, float by) {
  for (int32_t i = 0; i < n; ++i) out[i] = in[i] * by;
}

void store_i64(int64_t* out, int64_t v) { *out = v; }
void store_pair(int64_t* out, int64_t a, int64_t b) {
  out[0] = a;
  out[1] = b;
}
void nothing(void) {}
void six(int64_t* a, int64_t* b, int64_t* c, int64_t* d, int64_t* e, int64_t* f, int32_t x, int32_t y) {
  *a = 1, *b = 2, *c = 3, *d = 4, *e = x, *f = y;
}

/* No generated trampoline fits these. */
void every_scalar(double* out, int8_t a, int16_t b, int32_t c, int64_t d, uint8_t e, uint16_t f, uint32_t g, uint64_t h,
                  float i, double j, bool k) {
  out[0] = a, out[1] = b, out[2] = c, out[3] = (double)d, out[4] = e, out[5] = f, out[6] = g, out[7] = (double)h;
  out[8] = (double)i, out[9] = j, out[10] = k;
}
void mixed(double by, float* out, uint8_t n) {
  for (uint8_t i = 0; i < n; ++i) out[i] = (float)by;
}
