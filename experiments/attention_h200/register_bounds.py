"""Finds reads and writes beyond the ends of register arrays in a cuda kernel, without a GPU: its device code is compiled as host code,
with inline assembly replaced by uses of its operands and loops unrolled as its pragmas say, by g++ with -Warray-bounds.

    CULTIVAR_CACHE=/tmp/cache cultivar evaluate TASK FILE --target cuda --workloads SET --stop-after screen
    python3 register_bounds.py FILE /tmp/cache [MACRO...]

The macros of each specialization are those that the first command compiled; with MACRO... (as D=256) only specializations with
all of them. An index that depends on data is not seen. The exit code is 1 if something was found, 2 if a source was not compiled."""
import glob, json, os, pathlib, re, subprocess, sys, tempfile

SHIM = """
#include <cmath>
#define __device__
#define __global__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static
#define __grid_constant__
#define __restrict__
#define __align__(x) __attribute__((aligned(x)))
#define __constant__ static
template <class T> void written(T*);
template <class T> void read(T);
template <class T> inline __attribute__((always_inline)) void write_of(T& x) { written(&x); }
template <class T> inline __attribute__((always_inline)) void read_of(const T& x) { read(x); }
struct Three { unsigned x, y, z; };
extern const Three threadIdx, blockIdx, blockDim, gridDim;
struct uint4 { unsigned x, y, z, w; }; struct uint2 { unsigned x, y; }; struct int4 { int x, y, z, w; }; struct int2 { int x, y; };
struct float4 { float x, y, z, w; }; struct float2 { float x, y; };
inline uint4 make_uint4(unsigned a, unsigned b, unsigned c, unsigned d) { return {a, b, c, d}; }
inline uint2 make_uint2(unsigned a, unsigned b) { return {a, b}; }
inline int4 make_int4(int a, int b, int c, int d) { return {a, b, c, d}; }
inline int2 make_int2(int a, int b) { return {a, b}; }
inline float4 make_float4(float a, float b, float c, float d) { return {a, b, c, d}; }
inline float2 make_float2(float a, float b) { return {a, b}; }
void __syncthreads(); int __syncthreads_or(int); int __syncthreads_and(int); int __syncthreads_count(int); void __syncwarp(unsigned = ~0u); void __threadfence(); void __threadfence_block();
int __any_sync(unsigned, int); int __all_sync(unsigned, int); unsigned __ballot_sync(unsigned, int);
template <class T> T __shfl_xor_sync(unsigned, T, int, int = 32);
template <class T> T __shfl_sync(unsigned, T, int, int = 32);
template <class T> T __shfl_down_sync(unsigned, T, unsigned, int = 32);
template <class T> T __shfl_up_sync(unsigned, T, unsigned, int = 32);
float __int_as_float(int); int __float_as_int(float); float __uint_as_float(unsigned); unsigned __float_as_uint(float);
float __fmul_rn(float, float); float __fadd_rn(float, float); float __fdividef(float, float); float __expf(float);
float rsqrtf(float); float __frcp_rn(float); int __popc(unsigned); int __clz(int); int __ffs(int);
template <class T> T __ldg(const T*); template <class T> T __ldcs(const T*); template <class T> T __ldcg(const T*);
template <class T> void __stcs(T*, T); template <class T> void __stcg(T*, T);
template <class T> unsigned long long __cvta_generic_to_shared(T*);
template <class T, class U> T atomicAdd(T*, U); template <class T, class U> T atomicMax(T*, U);
template <class A, class B> inline A min(A a, B b) { return a < static_cast<A>(b) ? a : static_cast<A>(b); }
template <class A, class B> inline A max(A a, B b) { return a > static_cast<A>(b) ? a : static_cast<A>(b); }
struct __nv_bfloat16 { unsigned short v; __nv_bfloat16() = default; explicit __nv_bfloat16(float); operator float() const; };
struct __half { unsigned short v; __half() = default; explicit __half(float); operator float() const; };
float __bfloat162float(__nv_bfloat16); __nv_bfloat16 __float2bfloat16_rn(float); float __half2float(__half); __half __float2half_rn(float);
"""


def end_of(text, at):
    """The place behind the parenthesis that closes the one before `at`; strings are passed over."""
    depth = 1
    while depth:
        if text[at] == '"':
            at += 1
            while text[at] != '"':
                at += 2 if text[at] == "\\" else 1
        depth += (text[at] == "(") - (text[at] == ")")
        at += 1
    return at


def as_host_code(text):
    text = re.sub(r"#pragma unroll[ \t]*\n", "#pragma GCC unroll 128\n", text.replace("extern __shared__", "extern"))
    text = re.sub(r"#pragma unroll[ \t]+(\d+)", r"#pragma GCC unroll \1", text)
    text = re.sub(r"\balignas\(([^()]*)\)", r"__attribute__((aligned(\1)))", text)  # may stand anywhere
    result, at = "", 0
    for found in re.finditer(r"\basm\s*(?:volatile)?\s*\(", text):
        if found.start() < at:
            continue
        end = end_of(text, found.end())
        body, uses = text[found.end() : end - 1], []
        for operand in re.finditer(r'"([+=]?)[a-z]"\s*\(', body):
            last = end_of(body, operand.end())
            uses.append(f"{'write_of' if operand[1] else 'read_of'}({body[operand.end():last - 1]})")
        newlines = "\n" * text.count("\n", found.start(), end)  # lines keep their numbers
        result += text[at : found.start()] + f"({', '.join(uses) or '(void)0'}){newlines}"
        at = end
    return result + text[at:]


def main():
    if len(sys.argv) < 3 or {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(__doc__)
    source, wanted = pathlib.Path(sys.argv[1]), set(sys.argv[3:])
    headers = pathlib.Path(__file__).resolve().parents[2] / "configs/tasks/headers"
    found, count, failed = {}, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for header in headers.glob("*.cuh"):
            pathlib.Path(folder, header.name).write_text(as_host_code(header.read_text()))
        for name in ("cuda_bf16.h", "cuda_fp16.h"):
            pathlib.Path(folder, name).write_text("")
        pathlib.Path(folder, "shim.h").write_text(SHIM)
        pathlib.Path(folder, "kernel.cpp").write_text(f'#include "shim.h"\n#line 1 "{source.name}"\n' + as_host_code(source.read_text()))
        for file in sorted(glob.glob(os.path.join(sys.argv[2], "cuda/cuda/*/*.json"))):
            macros = json.load(open(file))["macros"]
            if not wanted <= set(macros):
                continue
            peel = [f"--param=max-completely-{name}=100000" for name in ("peeled-insns", "peel-times")]
            run = subprocess.run(["g++", "-std=c++20", "-O3", "-Warray-bounds=2", "-Waggressive-loop-optimizations", "-fpermissive", *peel, "-c", "-o",
                                  os.devnull, "-I", folder, *(f"-D{m}" for m in macros), os.path.join(folder, "kernel.cpp")], capture_output=True, text=True)
            count += 1
            if run.returncode:
                failed += 1
                print("not compiled:", *re.findall(r".*error: .*", run.stderr)[:2], sep="\n  ", file=sys.stderr)
            for place, index, of in re.findall(r"^(\S+:\d+):\d+: warning: array subscript (-?\d+) (.*) \[-Warray-bounds", run.stderr, re.M):
                found.setdefault((place, of), set()).add(int(index))
    for (place, of), indices in sorted(found.items()):
        print(f"{place}: subscripts {min(indices)} to {max(indices)} {of}")
    print(f"{source}: {count} specializations, {failed} not compiled, {len(found)} places")
    sys.exit(1 if found else 2 if failed or not count else 0)


main()
