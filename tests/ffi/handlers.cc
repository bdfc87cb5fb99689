// Foreign functions of test_ffi.py, in C++ with XLA's typed interface, and a plain one.
#include <cstdint>
#include <cstring>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static int64_t calls = 0;
extern "C" int64_t NumberOfCalls() { return calls; }

// y = factor * x + shift
static ffi::Error ScaleImpl(float factor, int64_t shift, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  ++calls;
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = factor * x.typed_data()[i] + shift;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Scale, ScaleImpl,
                              ffi::Ffi::Bind().Attr<float>("factor").Attr<int64_t>("shift")
                                  .Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// Sums along the last axis of x times y, and the largest element of each row of x.
static ffi::Error RowsImpl(ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> y, ffi::ResultBuffer<ffi::F32> sums,
                           ffi::ResultBuffer<ffi::F32> largest) {
  int64_t n = x.dimensions().back();
  int64_t rows = x.element_count() / n, rows_of_y = y.element_count() / n;
  for (int64_t i = 0; i < rows; ++i) {
    const float* a = x.typed_data() + i * n;
    const float* b = y.typed_data() + (i % rows_of_y) * n;
    float sum = 0, most = a[0];
    for (int64_t j = 0; j < n; ++j) { sum += a[j] * b[j]; if (a[j] > most) most = a[j]; }
    sums->typed_data()[i] = sum;
    largest->typed_data()[i] = most;
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Rows, RowsImpl,
                              ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// The elements in the order of memory.
static ffi::Error InMemoryImpl(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  std::memcpy(y->typed_data(), x.typed_data(), x.element_count() * sizeof(float));
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(InMemory, InMemoryImpl,
                              ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// Attributes of all types: their sum; an error if the text is "fail".
static ffi::Error AttributesImpl(bool flag, int32_t i, double d, std::string_view text, ffi::Span<const float> values,
                                 ffi::Dictionary fields, ffi::ResultBuffer<ffi::F32> y) {
  if (text == "fail") return ffi::Error(ffi::ErrorCode::kInvalidArgument, "the text is fail");
  float sum = (flag ? 100 : 0) + i + d + text.size();
  for (float v : values) sum += v;
  auto k = fields.get<int64_t>("k");
  if (k.has_error()) return k.error();
  y->typed_data()[0] = sum + *k;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Attributes, AttributesImpl,
                              ffi::Ffi::Bind().Attr<bool>("flag").Attr<int32_t>("i").Attr<double>("d")
                                  .Attr<std::string_view>("text").Attr<ffi::Span<const float>>("values")
                                  .Attr<ffi::Dictionary>("fields").Ret<ffi::Buffer<ffi::F32>>());

// A plain function: the first element plus the length of the configuration.
extern "C" void Plain(void* out, const void** in, const char* config, size_t length, void*) {
  *static_cast<float*>(out) = *static_cast<const float*>(in[0]) + static_cast<float>(length);
}
