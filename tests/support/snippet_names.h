// What snippets of fixes leave to the program: names of any kind, and those of CUDA with their types where nvcc compiles.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

// A value, function or type of the program, which goes wherever something is expected.
struct Any {
    template <class T> operator T() const { return *static_cast<T*>(nullptr); }
    template <class... T> Any operator()(T&&...) const { return {}; }
    template <class T> Any& operator[](T) const { return *static_cast<Any*>(nullptr); }
    template <class T> Any& operator=(const T&) { return *this; }
    template <class T> Any& operator+=(const T&) { return *this; }
    template <class T> Any& operator*=(const T&) { return *this; }
    Any& operator*() const { return *static_cast<Any*>(nullptr); }
    int sync() const { return 0; }
    Any* begin() const { return nullptr; }
    Any* end() const { return nullptr; }
    int numAttrs, count, x, programmaticStreamSerializationAllowed;
    void* attrs;
    float* data;
};

#define OPERATOR(kind, sign)                                      \
    inline kind operator sign(const Any&, int) { return {}; }     \
    inline kind operator sign(int, const Any&) { return {}; }     \
    inline kind operator sign(const Any&, const Any&) { return {}; }
OPERATOR(bool, <)
OPERATOR(bool, ==)
OPERATOR(int, +)
OPERATOR(int, -)
OPERATOR(int, *)
OPERATOR(int, %)
using Input = Any;
using Part = Any;
using MPI_Request = Any;
int i, n, m, k, iterations;
const int ranks = 8;

#ifdef __CUDACC__
#include <cub/cub.cuh>
#include <cuda_profiler_api.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/sort.h>
#include <thrust/system/cuda/execution_policy.h>
#include <thrust/transform.h>
#include <thrust/tuple.h>
cudaStream_t stream, copy_stream, compute_stream, comm_stream, other_stream;
cudaEvent_t computed, copied, done, done_one_step_ago;
cudaGraph_t graph;
cudaGraphExec_t exec;
cudaLaunchConfig_t config;
__global__ void kernel(float*) {}
float *x, *y, *out, *frame, *device_frame, *data, *host_data, *table, *host_table, *result, *host_result, *total, *host_total, *staging;
float alpha, beta;
int device;
size_t bytes, size, most_bytes;
std::vector<float> keys;
struct {
    using value_type = char;
    char* allocate(std::ptrdiff_t) { return nullptr; }
    void deallocate(char*, size_t) {}
} cache;
template <class T> __device__ T scale(T value) { return value; }
template <class T> __device__ T shift(T, T value) { return value; }
#else
enum { cudaMemLocationTypeDevice, cudaMemLocationTypeHost };
struct cudaMemLocation {
    int type, id;
};
inline void cudaMemPrefetchAsync(Any, Any, cudaMemLocation, int, Any) {}
using cudaMemPool_t = Any;
using hipMemPool_t = Any;
struct cudaLaunchAttribute {
    int id;
    Any val;
};
using dim3 = std::vector<int>;
#endif
