/*--- cultivar
name: attention_backward_persistent
task: attention_backward
target: cuda
about: "Hopper: blocks stay; one thread feeds two warpgroups of 64 keys each, from tile to tile without a stop; DS K is multiplied a step later and added beside P^T DO and DS^T Q; spare warps compute delta ahead and round dq behind; the last tiles are cut so that all blocks end together."
requires: "dtype != f32 && (D == 64 || D == 128)"
tunables:
  ROTATE: {values: [0, 1, 2], default: 2}            # without a mask, tiles of a head begin 0: with the same queries, 1: spread over all, 2: with the first four blocks
  WALK: {values: [0, 3], default: 3}                 # under the mask, queries of a tile from 0: the first block on, a head after the other; 3: the last block on, in odd sections the first, all heads at every block
  WAVES: {values: [1, 2], default: 1}                # under the mask, tiles for each block in a section
  EARLY: {values: [0, 1, 2], default: 1}             # key heads whose queries a kernel of its own prepares: 0: the first, 1: more if tiles are short, 2: all
  AHEAD: {values: [0, 1], default: 0}                # whether Q and DO are prefetched into L2, four steps ahead
  # Who tells the feeder that a step's queries have been read: a lane of each warp, behind __syncwarp, or every thread. Racecheck counts only the
  # arriving thread's own reads, so that it reports `warp` as a hazard between the reads of lse and delta and the next copy. `thread` passes, and costs 0.2 %.
  ARRIVE: {values: [warp, thread], default: thread}
constraints:
  - "smem <= smem_max"
specialize: [D, causal, dtype]
headers: [approximate.cuh, barriers.cuh, gradient_products.cuh, gradient_rows.cuh, sixteen_bits.cuh]
let:
  m_rows: "D == 64 ? 128 : 64"
  m_blocks: "ceil_div(S_q, m_rows)"
  n_blocks: "ceil_div(S_kv, 128)"
  tiles: "B * H_kv * n_blocks"
  items: "H / H_kv * m_blocks"                              # blocks of queries that read a key head
  heads: "B * H_kv"
  # Key heads whose queries a kernel of its own prepares: the first; more if tiles are too short for the helpers to keep up.
  share: "EARLY == 2 ? 8 : EARLY == 0 ? 0 : causal ? (n_blocks <= 8 ? 5 : n_blocks <= 16 ? 4 : 0) : 0"
  early: "min(heads, max(ceil_div(num_sms, n_blocks) + 1, ceil_div(heads * share, 8)))"
  # Under the mask, tiles are taken longest first, of sections of heads that just fill the blocks, so that queries and sums of dq stay in
  # L2. Tiles of even sections begin together, those of odd ones as the former end; the last two are one if it would be an even one.
  section: "causal ? min(heads, max(1, floor_div(WAVES * num_sms, n_blocks))) : 1"
  sections: "causal ? max(1, 2 * floor_div(heads, 2 * section)) : heads"
  lead: "heads - floor_div(heads, section) * section"
  # Without a mask, tiles that would leave blocks idle at the end are cut into a range of steps for each block.
  rest: "tiles - floor_div(tiles, num_sms) * num_sms"
  cut: "!causal && 10 * rest < 9 * num_sms && rest * items >= 4 * num_sms && items <= 65536 ? rest : 0"
  blocks: "cut > 0 ? num_sms : min(num_sms, tiles)"
  smem: "2 * D * (384 + 2 * m_rows * 2) + 512 * m_rows + 32768 + 8 * m_rows * 2 + 1344"  # 1024 to align, 320 for barriers
workspace:
  stats: {bytes: "8 * m_rows * B * H * m_blocks"}                   # of each query: lse * log2(e) and delta
  sums: {bytes: "4 * m_rows * B * H * m_blocks * D"}                # of dq
  counters: {bytes: "4 * (2 * B * H_kv + 4 + 8 * cut)"}
  parts: {bytes: "max(16, 1024 * cut * D)"}                         # of dk and dv of cut tiles
tensor_maps:
  map_q: {tensor: q, sizes: [D, H, S_q, B], strides: [D, H*D, S_q*H*D],
          box: [64, 1, m_rows, 1], swizzle: 128B, l2_promotion: 128B}
  map_do: {tensor: grad_o, sizes: [D, H, S_q, B], strides: [D, H*D, S_q*H*D],
           box: [64, 1, m_rows, 1], swizzle: 128B, l2_promotion: 128B}
  map_k: {tensor: k, sizes: [D, H_kv, S_kv, B], strides: [D, H_kv*D, S_kv*H_kv*D],
          box: [64, 1, 128, 1], swizzle: 128B, l2_promotion: 256B}
  map_v: {tensor: v, sizes: [D, H_kv, S_kv, B], strides: [D, H_kv*D, S_kv*H_kv*D],
          box: [64, 1, 128, 1], swizzle: 128B, l2_promotion: 256B}
launch:
  - kernel: prepare
    grid: ["early * items", 1, 1]
    block: [256, 1, 1]
    args: [o, lse, grad_o, stats, sums, counters, parts, H, S_q, m_blocks, "2 * B * H_kv + 4 + 8 * cut", "cut * D * 64"]
  - kernel: attention_backward
    grid: [blocks, 1, 1]
    block: [384, 1, 1]
    shared: smem
    args: [map_q, map_do, map_k, map_v, o, lse, grad_o, stats, sums, counters, parts, dq, dk, dv, H, H_kv, S_q, S_kv, m_blocks,
           n_blocks, tiles, cut, lead, sections, section, early, scale]
---*/

// A tile is 128 keys of a key head with all blocks of queries of the query heads that read it. Thread blocks stay and take tile
// after tile. One thread, the feeder, copies. Two warpgroups, the teams, have 64 of the keys each; a step is a block of queries:
//
//   S^T = K Q^T, DP^T = V DO^T          64 keys by 64 queries, in registers
//   P^T, DS^T = P^T * (DP^T - delta)    rounded, as left factors in registers; DS also goes to shared memory
//   DV += P^T DO, DK += DS^T Q          in registers, until the last query
//   DQ += DS K                          DS of both teams, a step later, so that neither waits for the other
//
// A block of queries has 64; a team then has half of the head of DQ. Where D is 64 it has 128, as two halves; a team has the DQ of
// one of them. DQ is added up while DV and DK are multiplied, where D is 64 while the next S^T is, also from one tile to the next.
// The other warps, the helpers, compute delta of the queries of later heads and round the sums of dq of complete ones. Without a
// mask, the last tiles are cut; pieces of their dk and dv are added in global memory and rounded at the end. Shared tiles are
// columns of 64 elements with the 128-byte swizzle. TMA fills what lies past the last row with zeros. A query that is not there or sees nothing has a
// base of +inf, so that its P is 0.

enum : int { STAGES = 2 };  // blocks of Q and DO in shared memory

namespace {

// Enums, because NVRTC would make writable device globals of constants.
enum : int {
  kHead = D,
  kMasked = causal,
  kAllArrive = ARRIVE == ARRIVE_thread,
  kQueries = kHead == 64 ? 128 : 64,  // of a block
  kParts = kQueries / 64,
  kKeys = 128,
  kChunks = kHead / 8,
  kQueryColumn = kQueries * 128,  // bytes of 64 elements of each query
  kKeyColumn = kKeys * 128,
  kQueryTile = kQueries * kHead * 2,
  kKeyTile = kKeys * kHead * 2,
  kStatTile = kQueries * 8,
  kWeightColumn = kKeys * 128,  // bytes of 64 queries of each key
  kWeightTile = kKeys * kQueries * 2,
  kSumTile = 32768,
  kValuesAt = 2 * kKeyTile,  // after two tiles of keys
  kQueriesAt = 3 * kKeyTile,
  kGradientsAt = kQueriesAt + STAGES * kQueryTile,
  kWeightsAt = kGradientsAt + STAGES * kQueryTile,
  kSumsAt = kWeightsAt + 2 * kWeightTile,
  kStatsAt = kSumsAt + kSumTile,
  kBarriersAt = kStatsAt + STAGES * kStatTile,
  kTicketsAt = kBarriersAt + 160,  // of 4 tiles
  kPlacesAt = kTicketsAt + 16,     // of 4 steps
  kRowsAt = kPlacesAt + 64         // of 4 tiles: the place of the first key in k, and its number
};
// Barriers, 8 bytes each. The second of those of values is not used.
enum : int {
  KeysFull,
  KeysEmpty = KeysFull + 2,
  ValuesFull = KeysEmpty + 2,
  ValuesEmpty = ValuesFull + 2,
  WeightsFull = ValuesEmpty + 2,
  WeightsEmpty = WeightsFull + 2,
  SumsAdded = WeightsEmpty + 2,
  Full = SumsAdded + 4,
  Empty = Full + STAGES
};

}  // namespace

#include "approximate.cuh"
#include "gradient_products.cuh"
#include "gradient_rows.cuh"

namespace {

// What the teams must know of a step: its block's place among those of all heads, the first query, whether it is a tile's last
// step, and the first key.
struct Step {
  int at, first_query, last, first_key;
};
__device__ __forceinline__ Step load_step(u32 address) {
  Step x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.at), "=r"(x.first_query), "=r"(x.last), "=r"(x.first_key)
               : "r"(address)
               : "memory");
  return x;
}
__device__ __forceinline__ void store_step(u32 address, const Step& x) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x.at), "r"(x.first_query), "r"(x.last),
               "r"(x.first_key)
               : "memory");
}

__device__ __forceinline__ void team_sync(int team) {
  asm volatile("bar.sync %0, 128;" ::"r"(1 + team) : "memory");
}

__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
}
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
}

// A place in the steps of the cut tiles, for every block the same number of them: the tile, and its steps.
struct Piece {
  int tile, first, steps;
};

struct Sizes {
  int H, H_kv, S_q, S_kv, m_blocks, n_blocks, tiles, cut, lead, sections, section, early;
  // The same, but what is computed from it is not kept in registers across loops.
  __device__ __forceinline__ Sizes hidden() const {
    Sizes x = *this;
    asm volatile(""
                 : "+r"(x.H), "+r"(x.H_kv), "+r"(x.S_q), "+r"(x.S_kv), "+r"(x.m_blocks), "+r"(x.n_blocks), "+r"(x.tiles),
                   "+r"(x.cut), "+r"(x.lead), "+r"(x.sections), "+r"(x.section));
    return x;
  }
  // Tickets are those of whole tiles, then two for each block: its steps of one cut tile, and of the next.
  __device__ __forceinline__ int whole() const { return kMasked ? tiles : tiles - cut; }
  // The ticket of a draw, or -1.
  __device__ __forceinline__ int ticket(int draw) const {
    const int beyond = draw - whole();
    if (beyond < 0) return draw;
    return !kMasked && cut > 0 && beyond < static_cast<int>(gridDim.x) ? whole() + 2 * beyond : -1;
  }
  // The first of all steps of cut tiles that a range has, and the range that has a step.
  __device__ __forceinline__ int range_begin(int range) const {
    return static_cast<unsigned>(range * cut * items()) / gridDim.x;
  }
  __device__ __forceinline__ int range_of(int step) const {
    return ((step + 1) * gridDim.x - 1) / static_cast<unsigned>(cut * items());
  }
  // Of a ticket behind those of whole tiles; may have no steps if it is a range's second.
  __device__ __forceinline__ Piece piece(int ticket) const {
    const int place = ticket - whole(), begin = range_begin(place / 2), end = range_begin(place / 2 + 1);
    const int tile = begin / items(), border = (tile + 1) * items();
    if (place % 2 == 0) return {tile, begin - tile * items(), min(end, border) - begin};
    return {tile + 1, 0, end - border};
  }
  // Blocks of queries that read a key head, and key heads.
  __device__ __forceinline__ int items() const { return H / H_kv * m_blocks; }
  __device__ __forceinline__ int heads() const { return tiles / n_blocks; }
  // Of a ticket: the key head, and the tile of its keys; whether its section is an odd one.
  __device__ __forceinline__ bool find(int ticket, int& head, int& keys) const {
    bool odd = false;
    int first = 0, size = lead;
    if (ticket >= lead * n_blocks) {
      const int index = min((ticket - lead * n_blocks) / (section * n_blocks), sections - 1);
      odd = index % 2 != 0;
      first = lead + index * section;
      size = index == sections - 1 ? heads() - first : section;
    }
    const int place = ticket - first * n_blocks;
    keys = place / size, head = first + place - keys * size;
    return odd;
  }
};

// A tile of keys and a place among its steps, which are a head and a block of queries each.
struct Walk {
  int b, hk, first_key;
  int head, block, left;  // left: steps after this one
  int begin, start, blocks, size, end;
  bool up;    // whether from the first block on
  bool more;  // whether the next ticket is that of another piece of the same range

  __device__ __forceinline__ void enter(const Sizes& sizes, int ticket) {
    int bh, keys;
    Piece piece{};
    more = false;
    if (!kMasked && ticket >= sizes.whole()) {
      piece = sizes.piece(ticket);
      more = (ticket - sizes.whole()) % 2 == 0 && sizes.piece(ticket + 1).steps > 0;
      ticket = sizes.whole() + piece.tile;
    }
    const bool odd = sizes.find(ticket, bh, keys);
    const int group = sizes.H / sizes.H_kv;
    b = bh / sizes.H_kv, hk = bh - b * sizes.H_kv, first_key = keys * kKeys;
    // Under the mask, the first block of which a query sees a key.
    begin = kMasked ? min(sizes.m_blocks - 1, max(0, first_key - sizes.S_kv + sizes.S_q) / kQueries) : 0;
    blocks = sizes.m_blocks;
    start = begin;
    if (!kMasked && ROTATE == 1) start = static_cast<int>(static_cast<long long>(keys) * blocks / sizes.n_blocks);
    if (!kMasked && ROTATE == 2) start = min(blocks - 1, keys % 4);
    head = hk * group, block = start;
    if (kMasked) {
      size = group, end = head + group;
      up = WALK == 0 || odd;
      if (!up) block = start = blocks - 1;
    }
    left = (blocks - begin) * group - 1;
    if (!kMasked && piece.steps > 0) {
      const int heads = piece.first / blocks;
      head += heads, block += piece.first - heads * blocks;
      if (block >= blocks) block -= blocks;
      left = piece.steps - 1;
    }
  }
  // What a tile counts for in the sums of dq of its key head.
  __device__ __forceinline__ int weight() const { return kMasked ? 1 : left + 1; }
  // Of all blocks of queries of all heads.
  __device__ __forceinline__ int at(const Sizes& sizes) const { return (b * sizes.H + head) * sizes.m_blocks + block; }
  __device__ __forceinline__ void advance() {
    --left;
    if (kMasked) {
      if (WALK == 3) {
        if (++head < end) return;
        head -= size;
        block += up ? 1 : -1;
      } else {
        block += up ? 1 : -1;
        if (block == (up ? blocks : begin - 1)) block = start, ++head;
      }
      return;
    }
    if (++block == blocks) block = begin;
    if (block == start) ++head;
  }
};

struct Maps {
  const CUtensorMap *q, *grad, *k, *v;
};

// Of the whole grid: tiles taken, blocks of queries taken by helpers to prepare and parts of them to finish; of each key head,
// blocks of queries prepared, and tiles (or steps) whose dq has been added; cut tiles' keys taken to be written, 16 at a time;
// of each of these, pieces that have been added.
struct Counters {
  int *ticket, *prepared, *finished, *ready, *done, *joined, *added;
  __device__ __forceinline__ Counters(int* at, int heads)
      : ticket(at), prepared(at + 1), finished(at + 2), ready(at + 3), done(at + 3 + heads), joined(at + 3 + 2 * heads),
        added(joined + 1) {}
};

// One thread copies; it also counts the tiles whose dq has been added.
struct Feeder {
  const Sizes& sizes;
  const Maps& maps;
  const float* stats;
  const Counters& counters;
  u32 memory, barriers;

  // Keys of a tile, whose ticket the teams then see.
  __device__ __forceinline__ void keys(int tile, int ticket) const {
    const u32 full = barriers + 8 * (KeysFull + (tile & 1));
    store_int(memory + kTicketsAt + tile % 4 * 4, ticket);
    barrier_wait(barriers + 8 * (KeysEmpty + (tile & 1)), tile >> 1 & 1 ^ 1);
    if (ticket < 0) {
      barrier_arrive(full);
      return;
    }
    Walk walk;
    walk.enter(sizes, ticket);
    const u32 row = memory + kRowsAt + tile % 4 * 8;
    store_int(row, (walk.b * sizes.S_kv + walk.first_key) * sizes.H_kv + walk.hk);
    store_int(row + 4, walk.first_key);
    barrier_expect(full, kKeyTile);
#pragma unroll
    for (int column = 0; column < kHead / 64; ++column)
      load_box(memory + (tile & 1) * kKeyTile + column * kKeyColumn, maps.k, full, column * 64, walk.hk, walk.first_key,
               walk.b);
#pragma unroll
    for (int column = 0; column < kHead / 64; ++column)
      prefetch_box(maps.v, column * 64, walk.hk, walk.first_key, walk.b);
  }
  __device__ __forceinline__ void values(int tile, int ticket) const {
    Walk walk;
    walk.enter(sizes, ticket);
    const u32 full = barriers + 8 * ValuesFull;
    barrier_wait(barriers + 8 * ValuesEmpty, tile & 1 ^ 1);
    barrier_expect(full, kKeyTile);
#pragma unroll
    for (int column = 0; column < kHead / 64; ++column)
      load_box(memory + kValuesAt + column * kKeyColumn, maps.v, full, column * 64, walk.hk, walk.first_key, walk.b);
  }
  __device__ __forceinline__ void count(int tile, int2 what) const {
    barrier_wait(barriers + 8 * (SumsAdded + (tile & 3)), tile >> 2 & 1);
    announce(counters.done + what.x, what.y);
  }
  __device__ __forceinline__ void run() const {
    int ticket = sizes.ticket(blockIdx.x), next = 0, steps = 0;
    int2 now{}, ago1{}, ago2{}, ago3{};  // of the last tiles: the key head and the weight
    keys(0, ticket);
    int tile = 0;
    for (;; ++tile) {
      Walk walk;
      walk.enter(sizes, ticket);
      ago3 = ago2, ago2 = ago1, ago1 = now, now = make_int2(walk.b * sizes.H_kv + walk.hk, walk.weight());
      if (now.x >= sizes.early) observe(counters.ready + now.x, sizes.items());
      const int left = walk.left, turn = max(min(1, left), left - 4);  // turn: when the next tile is taken
      for (int step = 0; step <= left; ++step, ++steps) {
        const int stage = steps & 1;
        const u32 full = barriers + 8 * (Full + stage);
        barrier_wait(barriers + 8 * (Empty + stage), steps >> 1 & 1 ^ 1);
        const int row = walk.block * kQueries;
        store_step(memory + kPlacesAt + steps % 4 * 16,
                   Step{walk.at(sizes), row, step == left, walk.first_key});
        barrier_expect(full, 2 * kQueryTile + kStatTile);
#pragma unroll
        for (int column = 0; column < kHead / 64; ++column)
          load_box(memory + kQueriesAt + stage * kQueryTile + column * kQueryColumn, maps.q, full, column * 64, walk.head, row,
                   walk.b);
        load_bytes(memory + kStatsAt + stage * kStatTile, stats + static_cast<long long>(walk.at(sizes)) * (2 * kQueries),
                   kStatTile, full);
#pragma unroll
        for (int column = 0; column < kHead / 64; ++column)
          load_box(memory + kGradientsAt + stage * kQueryTile + column * kQueryColumn, maps.grad, full, column * 64, walk.head,
                   row, walk.b);
        if (step == max(0, turn - 1)) next = walk.more ? ticket + 1 : sizes.ticket(gridDim.x + atomicAdd(counters.ticket, 1));
        if (step == 0) values(tile, ticket);
        if (step == min(1, left) && tile > 2) count(tile - 3, ago3);  // not earlier: the teams may wait for this step
        if (step == turn) keys(tile + 1, next);
        walk.advance();
        if (AHEAD && step + 4 <= left) {
          Walk far = walk;
#pragma unroll
          for (int i = 0; i < 3; ++i) far.advance();
#pragma unroll
          for (int column = 0; column < kHead / 64; ++column) {
            prefetch_box(maps.q, column * 64, far.head, far.block * kQueries, far.b);
            prefetch_box(maps.grad, column * 64, far.head, far.block * kQueries, far.b);
          }
        }
      }
      if (next < 0) break;
      ticket = next;
    }
    if (tile > 1) count(tile - 2, ago2);
    if (tile > 0) count(tile - 1, ago1);
    count(tile, now);
  }
};

__device__ __forceinline__ void multiply_logits(float (&c)[32], u32 keys, u32 queries) {
  const u32 a = uniform(describe(keys, 0)), b = uniform(describe(queries, 0));
  multiply_first<false>(c, a, b);
#pragma unroll
  for (int inner = 1; inner < kHead / 16; ++inner)
    multiply_next<false>(c, a + (inner / 4 * kKeyColumn + inner % 4 * 32) / 16,
                         b + (inner / 4 * kQueryColumn + inner % 4 * 32) / 16);
}

// A team's part of DQ: half of the head, or of the queries.
__device__ __forceinline__ void multiply_dq(float (&dq)[32], u32 a, u32 b) {
  multiply_first<true>(dq, a, b);
#pragma unroll
  for (int inner = 1; inner < 8; ++inner) multiply_next<true>(dq, a + inner * 128, b + inner * 128);
}
__device__ __forceinline__ void multiply_dq(float (&dq)[32], u32 keys, u32 weights, int team) {
  multiply_dq(dq, uniform(describe(weights + (kHead == 64 ? team * kWeightColumn : 0), kWeightTile)),
              uniform(describe(keys + (kHead == 64 ? 0 : team * kKeyColumn), kKeyColumn)));
}

struct Adder {
  float* sums;
  u32 staged, barriers;
  int team, thread;
  // Before DQ is added. What was added before ended tile `ended`, or none (-1).
  __device__ __forceinline__ void begin(int ended) const {
    if (thread == 0) {
      if (ended >= 0)
        all_added(ended);
      else
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __syncwarp();
    team_sync(team);
  }
  // Adds DQ of a block of queries; `at` counts all blocks of all heads.
  __device__ __forceinline__ void finish(const float (&dq)[32], int at) const {
    float* const to = sums + static_cast<long long>(at) * (kQueries * kHead) + team * 4096;
#pragma unroll
    for (int n = 0; n < 8; ++n) store_shared(staged + (n * 128 + thread) * 16, dq + 4 * n);
    writes_are_visible();
    team_sync(team);
    if (thread == 0) add_bytes(to, staged, 16384);
  }
  __device__ __forceinline__ void operator()(const float (&dq)[32], int at, int ended) const {
    begin(ended);
    finish(dq, at);
  }
  // All that this team has added is in global memory; of one thread.
  __device__ __forceinline__ void all_added(int tile) const {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    barrier_arrive(barriers + 8 * (SumsAdded + (tile & 3)));
  }
};

// What helpers and the teams that have no tile left take.
__device__ __forceinline__ int take(int* counter) {
  int x = 0;
  if (threadIdx.x % 32 == 0) x = atomicAdd(counter, 1);
  return __shfl_sync(0xffffffffu, x, 0);
}

struct Tensors {
  const uint4* o;
  const float* lse;
  const uint4* grad;
  float *stats, *sums;
  uint4* dq;
};

// A warp: prepares the blocks of queries that no kernel has prepared.
__device__ __forceinline__ void help_prepare(const Sizes& sizes, const Tensors& tensors, const Counters& counters) {
  const int items = sizes.items(), lane = threadIdx.x % 32;
  for (;;) {
    const int at = sizes.early * items + take(counters.prepared);
    if (at >= sizes.heads() * items) return;
    float4* const zeros = reinterpret_cast<float4*>(tensors.sums + static_cast<long long>(at) * (kQueries * kHead));
#pragma unroll 4
    for (int i = 0; i < kQueries * kHead / 4; i += 32) zeros[i + lane] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (int first = 0; first < kQueries; first += 2 * 32 / kChunks)
      prepare_rows<2>(tensors.o, tensors.lse, tensors.grad, tensors.stats, sizes.H, sizes.S_q, sizes.m_blocks, at, first);
    __threadfence();
    __syncwarp();
    if (lane == 0) announce(counters.ready + at / items, 1);
  }
}

// A warp: writes dq of the key heads whose sums are complete.
__device__ __forceinline__ void help_finish(const Sizes& sizes, const Tensors& tensors, const Counters& counters, float scale) {
  const int items = sizes.items();
  for (;;) {
    const int part = take(counters.finished), at = part / (kQueries / 16);
    if (at >= sizes.heads() * items) return;
    if (threadIdx.x % 32 == 0) observe(counters.done + at / items, sizes.n_blocks * (kMasked ? 1 : items));
    __syncwarp();
    finish_rows(tensors.sums, tensors.dq, sizes.H, sizes.S_q, sizes.m_blocks, at, part % (kQueries / 16), scale);
  }
}

// What stays of a team's work from step to step.
struct Team {
  u32 memory, barriers, weight_row;
  int place, lane;
  float scale2;
};

// P of 64 queries whose S is in s.
__device__ __forceinline__ void find_weights(float (&s)[32], const Team& my, const Sizes& sizes, u32 stats, int first_key,
                                             int first_query) {
  const int place = my.place, lane = my.lane, column = lane % 4 * 2, shift = sizes.S_kv - sizes.S_q;
  const float scale2 = my.scale2;
  // Whether some pair of this tile must be left out.
  const bool masked = first_key + kKeys > sizes.S_kv || (kMasked && first_key + kKeys - 1 > first_query + shift);
#pragma unroll
  for (int n = 0; n < 8; n += 2) {
    const float4 base = load_shared(stats + n * 32);
    s[4 * n] = exp2_fast(fmaf(s[4 * n], scale2, -base.x));
    s[4 * n + 1] = exp2_fast(fmaf(s[4 * n + 1], scale2, -base.y));
    s[4 * n + 2] = exp2_fast(fmaf(s[4 * n + 2], scale2, -base.x));
    s[4 * n + 3] = exp2_fast(fmaf(s[4 * n + 3], scale2, -base.y));
    s[4 * n + 4] = exp2_fast(fmaf(s[4 * n + 4], scale2, -base.z));
    s[4 * n + 5] = exp2_fast(fmaf(s[4 * n + 5], scale2, -base.w));
    s[4 * n + 6] = exp2_fast(fmaf(s[4 * n + 6], scale2, -base.z));
    s[4 * n + 7] = exp2_fast(fmaf(s[4 * n + 7], scale2, -base.w));
  }
  if (masked) {
    const int key = first_key + place + lane / 4;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int j = key + i % 4 / 2 * 8, query = first_query + i / 4 * 8 + column + i % 2;
      if (j >= sizes.S_kv || (kMasked && j > query + shift)) s[i] = 0.0f;
    }
  }
}

// DS of 64 queries in dp.
__device__ __forceinline__ void find_gradients(const float (&s)[32], float (&dp)[32], u32 stats) {
#pragma unroll
  for (int n = 0; n < 8; n += 2) {
    const float4 delta = load_shared(stats + kQueries * 4 + n * 32);
    dp[4 * n] = s[4 * n] * (dp[4 * n] - delta.x);
    dp[4 * n + 1] = s[4 * n + 1] * (dp[4 * n + 1] - delta.y);
    dp[4 * n + 2] = s[4 * n + 2] * (dp[4 * n + 2] - delta.x);
    dp[4 * n + 3] = s[4 * n + 3] * (dp[4 * n + 3] - delta.y);
    dp[4 * n + 4] = s[4 * n + 4] * (dp[4 * n + 4] - delta.z);
    dp[4 * n + 5] = s[4 * n + 5] * (dp[4 * n + 5] - delta.w);
    dp[4 * n + 6] = s[4 * n + 6] * (dp[4 * n + 6] - delta.z);
    dp[4 * n + 7] = s[4 * n + 7] * (dp[4 * n + 7] - delta.w);
  }
}

__device__ __forceinline__ void pack_all(u32 (&to)[16], const float (&x)[32]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) to[i] = pack(x[2 * i], x[2 * i + 1]);
}

__device__ __forceinline__ void store_weights(const Team& my, const u32 (&ds)[16], u32 offset) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    store_matrices((my.weight_row + offset) ^ (i * 32), ds + 4 * i);
}

// c = (more ? c : 0) + a b over 64 queries
__device__ __forceinline__ void multiply_queries(float (&c)[kHead / 2], const u32 (&a)[16], u32 b, bool more) {
#pragma unroll
  for (int inner = 0; inner < 4; ++inner) multiply_kept(c, a + 4 * inner, b + inner * 128, more || inner > 0);
}

#if D == 64
// Of a step whose S is under way, of its first 64 queries: all until DK is. Without `more` the sums begin.
__device__ __forceinline__ void advance_sums(float (&dk_sum)[kHead / 2], float (&dv_sum)[kHead / 2], float (&s)[32],
                                             const Team& my, const Sizes& sizes, int steps, u32 keys, u32 values, int first_key,
                                             int first_query, bool more) {
  const int stage = steps & 1;
  const u32 gradients = my.memory + kGradientsAt + stage * kQueryTile;
  u32 stats = my.memory + kStatsAt + stage * kStatTile + my.lane % 4 * 16;
  const int half = stage ^ 1;
  const u32 empty = my.barriers + 8 * (WeightsEmpty + half), full = my.barriers + 8 * (WeightsFull + half);
  float dp[32];
  products_begin();
  multiply_logits(dp, values, gradients);
  products_commit();
  products_wait<1>();
  pin(s);
  find_weights(s, my, sizes, stats, first_key, first_query);
  products_wait<0>();
  pin(dp);
  const u32 right = uniform(describe(gradients, kQueryColumn)), left = right - (kGradientsAt - kQueriesAt) / 16;
  float s2[32];
  products_begin();
  multiply_logits(s2, keys, my.memory + kQueriesAt + stage * kQueryTile + 8192);
  products_commit();
  find_gradients(s, dp, stats);
  {
    u32 p[16], ds[16];
    pack_all(p, s);
    pack_all(ds, dp);
    products_begin();
    multiply_queries(dv_sum, p, right, more);
    multiply_queries(dk_sum, ds, left, more);
    products_commit();
    products_begin();
    multiply_logits(dp, values, gradients + 8192);
    products_commit();
    products_wait<2>();
    pin(s2);
    barrier_wait(empty, steps + 1 >> 1 & 1 ^ 1);
    store_weights(my, ds, half * kWeightTile);
  }
  stats += 256;
  find_weights(s2, my, sizes, stats, first_key, first_query + 64);
  products_wait<0>();
  pin(dp);
  pin(dk_sum);
  pin(dv_sum);
  find_gradients(s2, dp, stats);
  u32 p[16], ds[16];
  pack_all(p, s2);
  products_begin();
  multiply_queries(dv_sum, p, right + 512, true);
  pack_all(ds, dp);
  store_weights(my, ds, half * kWeightTile + kWeightColumn);
  writes_are_visible();
  __syncwarp();
  if (my.lane == 0) barrier_arrive(full);
  products_begin();
  multiply_queries(dk_sum, ds, left + 512, true);
  products_commit();
}

#else
// Of a step whose S is under way, all that makes DK; DQ of the step before is multiplied first and added beside DV and DK.
__device__ __forceinline__ void advance_all(float (&dk_sum)[kHead / 2], float (&dv_sum)[kHead / 2], float (&s)[32],
                                            const Team& my, const Sizes& sizes, const Adder& add, int steps, u32 keys_before,
                                            u32 values, int first_key, int first_query, int ended, bool more) {
  const int stage = steps & 1, half = stage ^ 1;
  const u32 gradients = my.memory + kGradientsAt + stage * kQueryTile;
  const u32 stats = my.memory + kStatsAt + stage * kStatTile + my.lane % 4 * 16;
  float dp[32];
  products_begin();
  multiply_logits(dp, values, gradients);
  products_commit();
  products_wait<1>();
  pin(s);
  find_weights(s, my, sizes, stats, first_key, first_query);
  u32 p[16], ds[16];
  pack_all(p, s);
  // No waits but those for products follow until DQ has been read.
  barrier_wait(my.barriers + 8 * (WeightsEmpty + half), steps + 1 >> 1 & 1 ^ 1);
  barrier_wait(my.barriers + 8 * (WeightsFull + stage), steps >> 1 & 1);
  add.begin(ended);
  const int at = load_int(my.memory + kPlacesAt + max(0, steps - 1) % 4 * 16);
  const u32 right = uniform(describe(gradients, kQueryColumn)), left = right - (kGradientsAt - kQueriesAt) / 16;
  const u32 a = uniform(describe(my.memory + kWeightsAt + stage * kWeightTile, kWeightTile));
  const u32 b = uniform(describe(keys_before + add.team * kKeyColumn, kKeyColumn));
  products_wait<0>();
  pin(dp);
  find_gradients(s, dp, stats);
  pack_all(ds, dp);
  float dq[32];
  products_begin();
  multiply_dq(dq, a, b);
  products_commit();
  store_weights(my, ds, half * kWeightTile);
  products_begin();
  multiply_queries(dv_sum, p, right, more);
  writes_are_visible();
  __syncwarp();
  if (my.lane == 0) barrier_arrive(my.barriers + 8 * (WeightsFull + half));
  multiply_queries(dk_sum, ds, left, more);
  products_commit();
  products_wait<1>();
  pin(dq);
  if (my.lane == 0) barrier_arrive(my.barriers + 8 * (WeightsEmpty + stage));
  add.finish(dq, at);
}

// Of a step none of whose queries sees a key of this team: DQ of the step before alone.
__device__ __forceinline__ void advance_none(float (&s)[32], const Team& my, const Adder& add, int steps, u32 keys_before,
                                             int ended) {
  const int stage = steps & 1, half = stage ^ 1;
  barrier_wait(my.barriers + 8 * (WeightsEmpty + half), steps + 1 >> 1 & 1 ^ 1);
  barrier_wait(my.barriers + 8 * (WeightsFull + stage), steps >> 1 & 1);
  add.begin(ended);
  const int at = load_int(my.memory + kPlacesAt + max(0, steps - 1) % 4 * 16);
  const u32 none[16] = {};
  store_weights(my, none, half * kWeightTile);
  writes_are_visible();
  __syncwarp();
  if (my.lane == 0) barrier_arrive(my.barriers + 8 * (WeightsFull + half));
  float dq[32];
  products_begin();
  multiply_dq(dq, keys_before, my.memory + kWeightsAt + stage * kWeightTile, add.team);
  products_commit();
  products_wait<0>();
  pin(s);
  pin(dq);
  if (my.lane == 0) barrier_arrive(my.barriers + 8 * (WeightsEmpty + stage));
  add.finish(dq, at);
}
#endif

__device__ __forceinline__ void add_four(float* to, const float* x) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
}

// Of a warp's 16 keys of a cut tile, dk or dv as the warp's fragments: where its sums lie, of this thread.
__device__ __forceinline__ float* part_at(float* parts, int place, int which) {
  return parts + (place * 2 + which) * (16 * kHead) + threadIdx.x % 32 * 4;
}

// A warp's dk and dv: to the output, or of a piece of a cut tile to the sums of all its pieces.
__device__ __forceinline__ void store_keys(const Sizes& all_sizes, int ticket, u32 row, int place, const float (&dk_sum)[kHead / 2],
                                           const float (&dv_sum)[kHead / 2], int* counts, float* parts, uint4* dk, uint4* dv,
                                           float scale) {
  if (!kMasked && ticket >= all_sizes.whole()) {
    const Sizes sizes = all_sizes.hidden();
    const int at = sizes.piece(ticket).tile * 8 + place / 16;
#pragma unroll
    for (int i = 0; i < kHead / 8; ++i) {
      add_four(part_at(parts, at, 0) + i * 128, dk_sum + 4 * i);
      add_four(part_at(parts, at, 1) + i * 128, dv_sum + 4 * i);
    }
    __threadfence();
    __syncwarp();
    if (threadIdx.x % 32 == 0) announce(Counters(counts, sizes.heads()).added + at, 1);
    return;
  }
  const int rows = all_sizes.S_kv - load_int(row + 4) - place;
  const long long stride = static_cast<long long>(all_sizes.H_kv) * kChunks;
  const long long to = static_cast<long long>(load_int(row)) * kChunks + place * stride;
  store_rows(dv + to, stride, rows, dv_sum, 1.0f);
  store_rows(dk + to, stride, rows, dk_sum, scale);
}

// A warp of a team that has no tile left: writes dk and dv of cut tiles.
__device__ __forceinline__ void finish_parts(const Sizes& sizes, const Counters& counters, float* parts, uint4* dk, uint4* dv,
                                             float scale) {
  const int items = sizes.items();
  for (;;) {
    const int at = take(counters.joined), tile = at / 8;
    if (at >= 8 * sizes.cut) return;
    const int pieces = sizes.range_of((tile + 1) * items - 1) - sizes.range_of(tile * items) + 1;
    if (threadIdx.x % 32 == 0) observe(counters.added + at, pieces);
    __syncwarp();
    int head, keys;
    sizes.find(sizes.whole() + tile, head, keys);
    const int b = head / sizes.H_kv, hk = head - b * sizes.H_kv, mine = keys * kKeys + at % 8 * 16;
    const long long stride = static_cast<long long>(sizes.H_kv) * kChunks;
    const long long to = (static_cast<long long>(b) * sizes.S_kv * sizes.H_kv + hk) * kChunks + mine * stride;
#pragma unroll 1
    for (int which = 0; which < 2; ++which) {
      float x[kHead / 2];
#pragma unroll
      for (int i = 0; i < kHead / 8; ++i) {
        const float4 y = load_sums(part_at(parts, at, which) + i * 128);
        x[4 * i] = y.x, x[4 * i + 1] = y.y, x[4 * i + 2] = y.z, x[4 * i + 3] = y.w;
      }
      store_rows((which == 0 ? dk : dv) + to, stride, sizes.S_kv - mine, x, which == 0 ? scale : 1.0f);
    }
  }
}

__device__ __forceinline__ int step_at(u32 memory, int steps) {
  return load_int(memory + kPlacesAt + steps % 4 * 16);
}

__device__ __forceinline__ int uniform_ticket(u32 memory, int tile) {
  return __shfl_sync(0xffffffffu, load_int(memory + kTicketsAt + tile % 4 * 4), 0);
}

__device__ __forceinline__ void consume(const Sizes& sizes, int team, u32 memory, int* counts, float* sums,
                                        float* parts, uint4* dk, uint4* dv, float scale) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  const u32 barriers = memory + kBarriersAt;
  const u32 mine = memory + team * 64 * 128;  // this team's rows of a tile of keys
  const int place = 64 * team + 16 * warp;    // of this warp's keys in the tile
  // Of stmatrix: rows of 128 bytes, whose chunks of 16 bytes are swizzled.
  const u32 weight_row = memory + kWeightsAt + (place + lane % 16) * 128 + (lane / 16 ^ lane % 8) * 16;
  const Team my{memory, barriers, weight_row, place, lane, scale * 1.44269504f};
  const Adder add{sums, memory + kSumsAt + team * 16384, barriers, team, static_cast<int>(threadIdx.x % 128)};
  float dk_sum[kHead / 2], dv_sum[kHead / 2], s[32];
#pragma unroll
  for (int i = 0; i < kHead / 2; ++i) dk_sum[i] = dv_sum[i] = 0.0f;
  // Before the first step, DS is 0.
  const u32 none[16] = {};
#pragma unroll
  for (int part = 0; part < kParts; ++part) store_weights(my, none, part * kWeightColumn);
  writes_are_visible();
  __syncwarp();
  if (lane == 0) barrier_arrive(barriers + 8 * WeightsFull);
  int steps = 0, tile = 0;  // of this thread block
  int ended = -1;           // the tile that the last sums were the last of
  barrier_wait(barriers + 8 * KeysFull, 0);
  barrier_wait(barriers + 8 * Full, 0);
  products_begin();
  multiply_logits(s, mine, memory + kQueriesAt);
  products_commit();
#pragma unroll 1
  for (;;) {
    bool fresh = true, begun = false;  // whether this is the tile's first step; whether its dk and dv have been begun
    barrier_wait(barriers + 8 * ValuesFull, tile & 1);
#pragma unroll 1
    for (;;) {
      // DQ is that of the step before, maybe of the tile before.
      const int half = steps & 1, before = fresh && tile > 0 ? tile - 1 : tile;
      const Step step = load_step(memory + kPlacesAt + steps % 4 * 16);
#if D == 64
      advance_sums(dk_sum, dv_sum, s, my, sizes, steps, mine + (tile & 1) * kKeyTile, mine + kValuesAt, step.first_key,
                   step.first_query, !fresh);
      float dq[32];
      barrier_wait(barriers + 8 * (WeightsFull + half), steps >> 1 & 1);
      products_begin();
      multiply_dq(dq, memory + (before & 1) * kKeyTile, memory + kWeightsAt + half * kWeightTile, team);
      products_commit();
#else
      if (kMasked && step.first_key + 64 * team > step.first_query + kQueries - 1 + sizes.S_kv - sizes.S_q) {
        advance_none(s, my, add, steps, memory + (before & 1) * kKeyTile, ended);
      } else {
        advance_all(dk_sum, dv_sum, s, my, sizes, add, steps, memory + (before & 1) * kKeyTile, mine + kValuesAt, step.first_key,
                    step.first_query, ended, begun);
        begun = true;
        products_wait<0>();
        pin(dk_sum);
        pin(dv_sum);
      }
      ended = before != tile ? before : -1;
#endif
      const bool last = load_int(memory + kPlacesAt + steps % 4 * 16 + 8) != 0;
#if D == 64
      products_wait<0>();
      pin(dk_sum);
      pin(dv_sum);
      pin(dq);
#endif
      if (kAllArrive) barrier_arrive(barriers + 8 * (Empty + half));
      if (lane == 0) {
        if (!kAllArrive) barrier_arrive(barriers + 8 * (Empty + half));
        if (D == 64) barrier_arrive(barriers + 8 * (WeightsEmpty + half));
        if (before != tile) barrier_arrive(barriers + 8 * (KeysEmpty + (before & 1)));
        if (last) barrier_arrive(barriers + 8 * ValuesEmpty);
      }
      const int next = last ? tile + 1 : tile;
      if (last) {
        barrier_wait(barriers + 8 * (KeysFull + (next & 1)), next >> 1 & 1);
        if (uniform_ticket(memory, next) < 0) {
#if D == 64
          add(dq, step_at(memory, max(0, steps - 1)), ended);
          ended = before != tile ? before : -1;
#endif
          goto finish_last;
        }
      }
      barrier_wait(barriers + 8 * (Full + (half ^ 1)), steps + 1 >> 1 & 1);
      products_begin();
      multiply_logits(s, mine + (next & 1) * kKeyTile, memory + kQueriesAt + (half ^ 1) * kQueryTile);
      products_commit();
#if D == 64
      add(dq, step_at(memory, max(0, steps - 1)), ended);
      ended = before != tile ? before : -1;
#endif
      ++steps;
      fresh = false;
      if (last) break;
    }
    store_keys(sizes, uniform_ticket(memory, tile), memory + kRowsAt + tile % 4 * 8, place, dk_sum, dv_sum, counts, parts, dk, dv, scale);
    ++tile;
  }
finish_last: {
    float dq[32];
    const int half = steps + 1 & 1;
    barrier_wait(barriers + 8 * (WeightsFull + half), steps + 1 >> 1 & 1);
    products_begin();
    multiply_dq(dq, memory + (tile & 1) * kKeyTile, memory + kWeightsAt + half * kWeightTile, team);
    products_commit();
    products_wait<0>();
    pin(dq);
    add(dq, step_at(memory, steps), ended);
  }
  if (threadIdx.x % 128 == 0) add.all_added(tile);
  __syncwarp();
  store_keys(sizes, uniform_ticket(memory, tile), memory + kRowsAt + tile % 4 * 8, place, dk_sum, dv_sum, counts, parts, dk, dv, scale);
}

}  // namespace

// Zeros for counters and the sums of cut tiles; of the first key heads: delta and lse of their queries, and zeros for dq. A block has
// the queries of a block of a head.
extern "C" __global__ void __launch_bounds__(256)
    prepare(const uint4* o, const float* lse, const uint4* grad, float* stats, float4* sums, int* counters, float4* parts, int H,
            int S_q, int m_blocks, int all_counters, int all_parts) {
  if (blockIdx.x == 0)
    for (int i = threadIdx.x; i < all_counters; i += 256) counters[i] = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < all_parts; i += gridDim.x * 256)
    parts[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float4* const zeros = sums + static_cast<long long>(blockIdx.x) * (kQueries * kHead / 4);
#pragma unroll
  for (int i = 0; i < kQueries * kHead / 4; i += 256) zeros[i + threadIdx.x] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  prepare_rows<4>(o, lse, grad, stats, H, S_q, m_blocks, blockIdx.x, threadIdx.x / 32 * (kQueries / 8));
}

extern "C" __global__ void __launch_bounds__(384, 1)
    attention_backward(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_do,
                       const __grid_constant__ CUtensorMap map_k, const __grid_constant__ CUtensorMap map_v, const uint4* o,
                       const float* lse, const uint4* grad, float* stats, float* sums, int* counts, float* parts, uint4* dq, uint4* dk,
                       uint4* dv, int H, int H_kv, int S_q, int S_kv, int m_blocks, int n_blocks, int tiles, int cut, int lead,
                       int sections, int section, int early, float scale) {
  extern __shared__ uint4 shared[];
  const u32 memory = (shared_address(shared) + 1023) / 1024 * 1024;
  const Maps maps{&map_q, &map_do, &map_k, &map_v};
  const Sizes sizes{H, H_kv, S_q, S_kv, m_blocks, n_blocks, tiles, cut, lead, sections, section, early};
  const Counters counters(counts, sizes.heads());
  const Tensors tensors{o, lse, grad, stats, sums, dq};
  if (threadIdx.x == 0) {
    const u32 barriers = memory + kBarriersAt;
    for (int i = 0; i < 2; ++i) {
      barrier_init(barriers + 8 * (KeysFull + i), 1);
      barrier_init(barriers + 8 * (KeysEmpty + i), 8);
      barrier_init(barriers + 8 * (ValuesFull + i), 1);
      barrier_init(barriers + 8 * (ValuesEmpty + i), 8);
      barrier_init(barriers + 8 * (WeightsFull + i), 8);
      barrier_init(barriers + 8 * (WeightsEmpty + i), 8);
      barrier_init(barriers + 8 * (Full + i), 1);
      barrier_init(barriers + 8 * (Empty + i), kAllArrive ? 256 : 8);
    }
    for (int i = 0; i < 4; ++i) barrier_init(barriers + 8 * (SumsAdded + i), 2);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    writes_are_visible();
  }
  __syncthreads();
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  if (warp < 4) {
    give_registers();
    if (warp == 0) {
      if (threadIdx.x == 0) Feeder{sizes, maps, stats, counters, memory, memory + kBarriersAt}.run();
    } else {
      help_prepare(sizes, tensors, counters);
      help_finish(sizes, tensors, counters, scale);
    }
  } else {
    take_registers();
    consume(sizes, warp / 4 - 1, memory, counts, sums, parts, dk, dv, scale);
    if (!kMasked) finish_parts(sizes, counters, parts, dk, dv, scale);
    help_finish(sizes, tensors, counters, scale);
  }
}
