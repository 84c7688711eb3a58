"""Lists the legal forms of moves, memory, synchronisation, warp, matrix and control instructions (PTX ISA 9.7.9 to
9.7.19)."""

MACROS = {
    "TYPE": "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64",
    "WIDE": "b64 u64 s64 f64",
    "WORD": "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64",
    "SPACE": "global shared shared::cta shared::cluster local const param param::entry param::func",
    "MEMORY": "global shared shared::cta shared::cluster local param param::func",
    "STRONG": "global shared shared::cta shared::cluster",
    "SCOPE": "cta cluster gpu sys",
    "L1WORDS": "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate",
    "L1": "{.[$L1WORDS]}",
    "L2": "{.[L2::evict_last L2::evict_normal L2::evict_first]}",
    "CACHE": "{.P[L2::cache_hint]}",
    "FETCH": "{.[L2::64B L2::128B L2::256B]}",
    "SHARED": "{.[shared shared::cta]}",
    "ATOMIC": "{.[relaxed acquire release acq_rel]}$SCOPES$GENERIC",
    "GLOBALATOMIC": "{.[relaxed acquire release acq_rel]}$SCOPES{.global}",
    "GLOBALREDUCTION": "{.[relaxed release]}$SCOPES{.global}",
    "BOX": ".D[1d 2d 3d 4d 5d]",
    "PIXELS": ".D[3d 4d 5d]",
    "TILED": "{.tile}.mbarrier::complete_tx::bytes",
    "IM2COL": ".im2col.mbarrier::complete_tx::bytes",
    "TOALL": "{.M[multicast::cluster]}",
    "TMA": "cp.async.bulk.tensor",
    "OPERATION": "add min max inc dec and or xor",
    "REDUCE": "cp.reduce.async.bulk",
    "UNSHIFTED": ".im2col_no_offs.bulk_group{.P[L2::cache_hint]}",
    "TOBLOCKS": ".shared::cluster.global.mbarrier::complete_tx::bytes",
    "COPYMAP": "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic",
    "TOCLUSTER": ".shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
    "TOGLOBAL": ".global.shared::cta.bulk_group{.P[L2::cache_hint]}",
    "FIELD": "tensormap.replace.tile",
    "MAPSPACE": "{.[global shared::cta]}.b1024",
    "STORED": "{.[shared::cluster]}.mbarrier::complete_tx::bytes",
    "REDUCED": "red.async.relaxed.cluster{.[shared::cluster]}.mbarrier::complete_tx::bytes",
    # The register counts of setmaxnreg are the multiples of 8 from 24 to 256.
    "COUNTS": ",".join(map(str, range(24, 257, 8))),
    "F8": "[e4m3 e5m2]",
    "SCOPES": "{.[cta cluster gpu sys]}",
    "GENERIC": "{.[global shared shared::cta shared::cluster]}",
}

# The numbers of columns N of wgmma, for float types and for integer types (PTX ISA, "wgmma.mma_async", shapes).
EIGHTS = range(8, 257, 8)
SIXTEENS = (8, 16, 24, *range(32, 257, 16))
MACROS |= {f"N{k}": " ".join(f"m64n{n}k{k}" for n in EIGHTS) for k in (8, 16)}
MACROS |= {"N32": " ".join(f"m64n{n}k32" for n in EIGHTS), "I32": " ".join(f"m64n{n}k32" for n in SIXTEENS)}
MACROS |= {"I256": " ".join(f"m64n{n}k256" for n in SIXTEENS), "MULTIPLY": "wgmma.mma_async.sync.aligned"}

MOVEMENT = """
mov.T[$WORD pred] : =T &T
mov.T[b16 b32 b64] : =T <T
mov.T[b16 b32 b64] : =<T T
mov.V[v2 v4].T[$WORD] : =T*V T*V
mov.V[v4].T[u16 u32] : =T*V special
cvta.[global shared shared::cta shared::cluster local const param param::entry].T[u64] : =T +T
cvta.to.[global shared shared::cta shared::cluster local const param param::entry].T[u64] : =T T
isspacep.[global shared shared::cta shared::cluster local const param param::entry] : =pred u64
mapa{.[shared::cluster]}.T[u32 u64] : =T +T u32 : sm_90 7.8
getctarank{.[shared::cluster]}.T[u32 u64] : =u32 +T : sm_90 7.8
"""

MEMORY = """
ld{.weak}{.[$SPACE]}{.[ca cg cs lu cv]}{.V[v2 v4]}.T[$TYPE] : =~T*V @
ld{.weak}{.global}{.[ca cg cs lu cv $L1WORDS]}$CACHE$FETCH{.V[v2 v4]}.T[$TYPE] : =~T*V @ P?u64
ld.volatile{.[$STRONG]}{.V[v2 v4]}.T[$TYPE] : =~T*V @
ld.volatile{.global}$FETCH{.V[v2 v4]}.T[$TYPE] : =~T*V @
ld.[relaxed acquire].[$SCOPE]{.[$STRONG]}{.V[v2 v4]}.T[$TYPE] : =~T*V @ : sm_70 6.0
ld.[relaxed acquire].[$SCOPE]{.global}$L1$CACHE$FETCH{.V[v2 v4]}.T[$TYPE] : =~T*V @ P?u64 : sm_70 6.0
ld.mmio.relaxed.sys{.global}.T[$TYPE] : =~T @ : sm_70 8.2
ld.global.nc$L1$CACHE$FETCH{.V[v2 v4]}.T[$TYPE] : =~T*V @ P?u64 : sm_32 3.1
ld.global.[ca cg cs].nc$CACHE$FETCH{.V[v2 v4]}.T[$TYPE] : =~T*V @ P?u64 : sm_32 3.1
ld{.weak}{.global}$L1$L2$CACHE$FETCH.V[v8].T[b32 u32 s32 f32] : =~T*V @ P?u64 : sm_100 8.8
ld{.weak}{.global}$L1$L2$CACHE$FETCH.V[v4].T[b64 u64 s64 f64] : =~T*V @ P?u64 : sm_100 8.8
ld.global.nc$L1$L2$CACHE$FETCH.V[v8].T[b32 u32 s32 f32] : =~T*V @ P?u64 : sm_100 8.8
ld.global.nc$L1$L2$CACHE$FETCH.V[v4].T[b64 u64 s64 f64] : =~T*V @ P?u64 : sm_100 8.8
ldu{.global}{.V[v2 v4]}.T[$TYPE] : =~T*V @
st{.weak}{.[$MEMORY]}{.[wb cg cs wt]}{.V[v2 v4]}.T[$TYPE] : @ ~T*V
st{.weak}{.global}{.[wb cg cs wt $L1WORDS]}$CACHE{.V[v2 v4]}.T[$TYPE] : @ ~T*V P?u64
st.volatile{.[$STRONG]}{.V[v2 v4]}.T[$TYPE] : @ ~T*V
st.[relaxed release].[$SCOPE]{.[$STRONG]}{.V[v2 v4]}.T[$TYPE] : @ ~T*V : sm_70 6.0
st.[relaxed release].[$SCOPE]{.global}$L1$CACHE{.V[v2 v4]}.T[$TYPE] : @ ~T*V P?u64 : sm_70 6.0
st.mmio.relaxed.sys{.global}.T[$TYPE] : @ ~T : sm_70 8.2
st{.weak}{.global}$L1$L2$CACHE.V[v8].T[b32 u32 s32 f32] : @ ~T*V P?u64 : sm_100 8.8
st{.weak}{.global}$L1$L2$CACHE.V[v4].T[b64 u64 s64 f64] : @ ~T*V P?u64 : sm_100 8.8
atom$ATOMIC.exch.T[b32 b64] : =_T @ T
atom$GLOBALATOMIC.exch.P[L2::cache_hint].T[b32 b64] : =_T @ T u64
atom$GLOBALATOMIC.add$CACHE.V[v2 v4].T[f32] : =_T*V @ T*V P?u64 : sm_90 8.1
atom$GLOBALATOMIC.add.noftz$CACHE.V[v2 v4 v8].T[f16 bf16] : =_T*V @ T*V P?u64 : sm_90 8.1
atom$GLOBALATOMIC.add.noftz$CACHE.V[v2 v4].T[f16x2 bf16x2] : =_T*V @ *T*V P?u64 : sm_90 8.1
atom$ATOMIC.cas.T[b16] : =_T @ T T : sm_70 6.3
atom$ATOMIC.cas.T[b32 b64] : =_T @ T T
red$GLOBALREDUCTION.add$CACHE.V[v2 v4].T[f32] : @ T*V P?u64 : sm_90 8.1
red$GLOBALREDUCTION.add.noftz$CACHE.V[v2 v4 v8].T[f16 bf16] : @ T*V P?u64 : sm_90 8.1
red$GLOBALREDUCTION.add.noftz$CACHE.V[v2 v4].T[f16x2 bf16x2] : @ *T*V P?u64 : sm_90 8.1
prefetch{.[global local]}.[L1 L2] : @
prefetch.global.[L2::evict_last L2::evict_normal] : @ : sm_80 7.4
prefetchu.L1 : @
prefetch{.[const param]}.tensormap : @ : sm_90 8.0
applypriority{.global}.L2::evict_normal : @ #128 : sm_80 7.4
discard{.global}.L2 : @ #128 : sm_80 7.4
createpolicy.fractional.[L2::evict_last L2::evict_normal].b64 : =i64 ?fraction : sm_80 7.4
createpolicy.fractional.[L2::evict_first L2::evict_unchanged].b64 : =i64 ?fraction : sm_80 7.4
membar.[cta gl sys] :
membar.proxy.alias : : sm_60 7.5
fence{.[sc acq_rel]}.[$SCOPE] : : sm_70 6.0
fence.[acquire release].[$SCOPE] : : sm_90 8.6
fence.mbarrier_init.release.cluster : : sm_90 8.0
fence.proxy.alias : : sm_70 7.5
fence.proxy.tensormap::generic.release.[$SCOPE] : : sm_90 8.3
fence.proxy.tensormap::generic.acquire.[$SCOPE] : @ #128 : sm_90 8.3
fence.proxy.async{.[global shared::cta shared::cluster]} : : sm_90 8.0
"""

# The operations of `atom` and `red` on one element. Only operations on global memory have a cache policy operand.
ATOMICS = "\n".join(
    f"{name}$SCOPES{space}.{operation}{hint}.T[{types}] : {target}@ T{policy} : {need}"
    for name, target in (("atom{.[relaxed acquire release acq_rel]}", "=_T "), ("red{.[relaxed release]}", ""))
    for space, hint, policy in (("$GENERIC", "", ""), ("{.global}", ".P[L2::cache_hint]", " u64"))
    for operation, types, need in (
        ("[and or xor]", "b32 b64", ""),
        ("add", "u32 s32 u64 f32", ""),
        ("add", "f64", "sm_60 5.0"),
        ("add.noftz", "f16", "sm_70 6.3"),
        ("add.noftz", "f16x2", "sm_60 6.2"),
        ("add.noftz", "bf16 bf16x2", "sm_90 7.8"),
        ("[inc dec]", "u32", ""),
        ("[min max]", "u32 s32 u64 s64", ""),
    )
)

ASYNCHRONOUS = """
cp.async.ca.[shared shared::cta].global$CACHE$FETCH : @shared @global #4,8,16 ?size P?u64 : sm_80 7.0
cp.async.cg.[shared shared::cta].global$CACHE$FETCH : @shared @global #16 ?size P?u64 : sm_80 7.0
cp.async.ca.[shared shared::cta].global$CACHE$FETCH : @shared @global #4,8,16 *! P?u64 : sm_80 7.5
cp.async.cg.[shared shared::cta].global$CACHE$FETCH : @shared @global #16 *! P?u64 : sm_80 7.5
cp.async.commit_group : : sm_80 7.0
cp.async.wait_group : #0..2147483647 : sm_80 7.0
cp.async.wait_all : : sm_80 7.0
cp.async.mbarrier.arrive{.noinc}$SHARED.b64 : @ : sm_80 7.0
cp.async.bulk.tensor$BOX.shared::cluster.global$TILED$TOALL$CACHE : @shared @tensor*D @shared M?mask P?u64 : sm_90 8.0
cp.async.bulk.tensor$BOX.shared::cta.global$TILED$CACHE : @shared @tensor*D @shared P?u64 : sm_90 8.6
$TMA$PIXELS.shared::cluster.global$IM2COL$TOALL$CACHE : @shared @tensor*D @shared offsets*D M?mask P?u64 : sm_90 8.0
cp.async.bulk.tensor$PIXELS.shared::cta.global$IM2COL$CACHE : @shared @tensor*D @shared offsets*D P?u64 : sm_90 8.6
cp.async.bulk.tensor$BOX.global.shared::cta{.tile}.bulk_group$CACHE : @tensor*D @shared P?u64 : sm_90 8.0
cp.async.bulk.tensor$PIXELS.global.shared::cta$UNSHIFTED : @tensor*D @shared P?u64 : sm_90 8.0
$REDUCE.tensor$BOX.global.shared::cta.[$OPERATION]{.tile}.bulk_group$CACHE : @tensor*D @shared P?u64 : sm_90 8.0
$REDUCE.tensor$PIXELS.global.shared::cta.[$OPERATION]$UNSHIFTED : @tensor*D @shared P?u64 : sm_90 8.0
cp.async.bulk.prefetch.tensor$BOX.L2.global{.tile}$CACHE : @tensor*D P?u64 : sm_90 8.0
cp.async.bulk.prefetch.tensor$PIXELS.L2.global.im2col$CACHE : @tensor*D offsets*D P?u64 : sm_90 8.0
cp.async.bulk.prefetch.L2.global$CACHE : @global bulk P?u64 : sm_90 8.0
cp.async.bulk$TOBLOCKS$TOALL$CACHE : @shared @global bulk @shared M?mask P?u64 : sm_90 8.0
cp.async.bulk$TOCLUSTER : @shared @shared bulk @shared : sm_90 8.0
$REDUCE$TOCLUSTER.add.[u32 s32 u64] : @shared @shared bulk @shared : sm_90 8.0
$REDUCE$TOCLUSTER.[min max].[u32 s32] : @shared @shared bulk @shared : sm_90 8.0
$REDUCE$TOCLUSTER.[inc dec].u32 : @shared @shared bulk @shared : sm_90 8.0
$REDUCE$TOCLUSTER.[and or xor].b32 : @shared @shared bulk @shared : sm_90 8.0
$REDUCE$TOGLOBAL.add.[u32 s32 u64 f32 f64] : @global @shared bulk P?u64 : sm_90 8.0
$REDUCE$TOGLOBAL.add.noftz.[f16 bf16] : @global @shared bulk P?u64 : sm_90 8.0
$REDUCE$TOGLOBAL.[min max].[u32 s32 u64 s64 f16 bf16] : @global @shared bulk P?u64 : sm_90 8.0
$REDUCE$TOGLOBAL.[inc dec].u32 : @global @shared bulk P?u64 : sm_90 8.0
$REDUCE$TOGLOBAL.[and or xor].[b32 b64] : @global @shared bulk P?u64 : sm_90 8.0
st.async{.weak}$STORED{.V[v2 v4]}.T[b32 b64 u32 u64 s32 s64 f32 f64] : @ T*V @ : sm_90 8.1
$REDUCED.add.T[u32 s32 u64] : @ T @ : sm_90 8.1
$REDUCED.[min max].T[u32 s32] : @ T @ : sm_90 8.1
$REDUCED.[inc dec].T[u32] : @ T @ : sm_90 8.1
$REDUCED.[and or xor].T[b32] : @ T @ : sm_90 8.1
$FIELD.global_address$MAPSPACE.b64 : @ i64 : sm_90a 8.3 | sm_100f 8.6
$FIELD.rank$MAPSPACE.b32 : @ i32 : sm_90a 8.3 | sm_100f 8.6
$FIELD.[box_dim global_dim element_stride]$MAPSPACE.b32 : @ #0..4 i32 : sm_90a 8.3 | sm_100f 8.6
$FIELD.global_stride$MAPSPACE.b64 : @ #0..3 i64 : sm_90a 8.3 | sm_100f 8.6
$FIELD.elemtype$MAPSPACE.b32 : @ #0..12 : sm_90a 8.3 | sm_100f 8.6
$FIELD.interleave_layout$MAPSPACE.b32 : @ #0..2 : sm_90a 8.3 | sm_100f 8.6
$FIELD.swizzle_mode$MAPSPACE.b32 : @ #0..3 : sm_90a 8.3 | sm_100f 8.6
$FIELD.fill_mode$MAPSPACE.b32 : @ #0..1 : sm_90a 8.3 | sm_100f 8.6
$COPYMAP.release.[$SCOPE].sync.aligned : @global @shared #128 : sm_90 8.3
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes$CACHE : @shared @global bulk @shared P?u64 : sm_90 8.6
cp.async.bulk.global.shared::cta.bulk_group$CACHE : @global @shared bulk P?u64 : sm_90 8.0
cp.async.bulk.commit_group : : sm_90 8.0
cp.async.bulk.wait_group{.read} : #0..2147483647 : sm_90 8.0
mbarrier.init$SHARED.b64 : @ count : sm_80 7.0
mbarrier.inval$SHARED.b64 : @ : sm_80 7.0
mbarrier.[expect_tx complete_tx]{.relaxed.[cta cluster]}{.[shared shared::cta shared::cluster]}.b64 : @ u32 : sm_90 8.0
mbarrier.[arrive arrive_drop]{.[release relaxed].[cta cluster]}$SHARED.b64 : =_i64 @ : sm_80 7.0
mbarrier.[arrive arrive_drop]{.[release relaxed].[cta cluster]}.shared::cluster.b64 : _ @ ?count : sm_90 8.0
mbarrier.[arrive arrive_drop]{.[release relaxed].[cta cluster]}$SHARED.b64 : =_i64 @ count : sm_90 7.8
mbarrier.[arrive arrive_drop].expect_tx{.[release relaxed].[cta cluster]}$SHARED.b64 : =_i64 @ u32 : sm_90 8.0
mbarrier.[arrive arrive_drop].expect_tx{.[release relaxed].[cta cluster]}.shared::cluster.b64 : _ @ u32 : sm_90 8.0
mbarrier.[arrive arrive_drop].noComplete{.release.cta}$SHARED.b64 : =_i64 @ count : sm_80 7.0
mbarrier.test_wait{.[acquire relaxed].[cta cluster]}$SHARED.b64 : =pred @ i64 : sm_80 7.0
mbarrier.test_wait.parity{.[acquire relaxed].[cta cluster]}$SHARED.b64 : =pred @ parity : sm_80 7.1
mbarrier.try_wait{.[acquire relaxed].[cta cluster]}$SHARED.b64 : =pred @ i64 ?u32 : sm_90 7.8
mbarrier.try_wait.parity{.[acquire relaxed].[cta cluster]}$SHARED.b64 : =pred @ parity ?u32 : sm_90 7.8
mbarrier.pending_count.b64 : =u32 i64 : sm_80 7.0
"""

WARP = """
bar{.cta}.sync : barrier ?threads
bar{.cta}.arrive : barrier arrivals
bar{.cta}.red.popc.u32 : =u32 barrier ?threads !
bar{.cta}.red.[and or].pred : =pred barrier ?threads !
barrier{.cta}.sync{.aligned} : barrier ?threads : sm_30 6.0
barrier{.cta}.arrive{.aligned} : barrier arrivals : sm_30 6.0
barrier{.cta}.red.popc{.aligned}.u32 : =u32 barrier ?threads ! : sm_30 6.0
barrier{.cta}.red.[and or]{.aligned}.pred : =pred barrier ?threads ! : sm_30 6.0
barrier.cluster.arrive{.release}{.aligned} : : sm_90 7.8
barrier.cluster.arrive.relaxed{.aligned} : : sm_90 8.0
barrier.cluster.wait{.acquire}{.aligned} : : sm_90 7.8
bar.warp.sync : i32 : sm_30 6.0
shfl.sync.[up down bfly idx].b32 : =b32|pred? b32 u32 u32 i32 : sm_30 6.0
vote.sync.[all any uni].pred : =pred ! i32 : sm_30 6.0
vote.sync.ballot.b32 : =b32 ! i32 : sm_30 6.0
match.any.sync.T[b32 b64] : =i32 T i32 : sm_70 6.0
match.all.sync.T[b32 b64] : =i32|pred? T i32 : sm_70 6.0
redux.sync.[add min max].[u32 s32] : =i32 i32 i32 : sm_80 7.0
redux.sync.[and or xor].b32 : =i32 i32 i32 : sm_80 7.0
activemask.b32 : =b32 : sm_30 6.2
elect.sync : =_b32|pred i32 : sm_90 8.0
griddepcontrol.[launch_dependents wait] : : sm_90 7.8
setmaxnreg.[inc dec].sync.aligned.u32 : #$COUNTS : sm_90a 8.0 | sm_100f 8.6
"""

MATRIX = """
ldmatrix.sync.aligned.m8n8.N[x1 x2 x4]{.trans}$SHARED.b16 : =b32*N @ : sm_75 6.5
stmatrix.sync.aligned.m8n8.N[x1 x2 x4]{.trans}$SHARED.b16 : @ b32*N : sm_90 7.8
movmatrix.sync.aligned.m8n8.trans.b16 : =b32 *b32 : sm_75 7.8
mma.sync.aligned.m8n8k4.[row col].[row col].f16.f16.f16.f16 : =f16x2*4 f16x2*2 f16x2*2 f16x2*4 : sm_70 6.4
mma.sync.aligned.m8n8k4.[row col].[row col].f32.f16.f16.f16 : =f32*8 f16x2*2 f16x2*2 f16x2*4 : sm_70 6.4
mma.sync.aligned.m8n8k4.[row col].[row col].f32.f16.f16.f32 : =f32*8 f16x2*2 f16x2*2 f32*8 : sm_70 6.4
mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 : =f64*2 f64*1 f64*1 f64*2 : sm_80 7.0
mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 : =-f64*4 f64*2 f64*1 f64*4 : sm_90 7.8
mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 : =-f64*4 f64*4 f64*2 f64*4 : sm_90 7.8
mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 : =-f64*4 f64*8 f64*4 f64*4 : sm_90 7.8
mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 : =f32*4 tf32*2 tf32*1 f32*4 : sm_80 7.0
mma.sync.aligned.m16n8k8.row.col.f32.[tf32 tf32].tf32.f32 : =f32*4 tf32*4 tf32*2 f32*4 : sm_80 7.0
mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 : =f32*4 bf16x2*2 bf16x2*1 f32*4 : sm_80 7.0
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 : =f32*4 bf16x2*4 bf16x2*2 f32*4 : sm_80 7.0
mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 : =f16x2*2 f16x2*2 f16x2*1 f16x2*2 : sm_75 6.5
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 : =f32*4 f16x2*2 f16x2*1 f32*4 : sm_75 6.5
mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 : =f16x2*2 f16x2*4 f16x2*2 f16x2*2 : sm_80 7.0
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 : =f32*4 f16x2*4 f16x2*2 f32*4 : sm_80 7.0
mma.sync.aligned.m16n8k16.row.col.f32.$F8.$F8.f32 : =-f32*4 b32*2 b32*1 f32*4 : sm_89 8.7
mma.sync.aligned.m16n8k32.row.col.f32.$F8.$F8.f32 : =-f32*4 b32*4 b32*2 f32*4 : sm_89 8.4
mma.sync.aligned.m16n8k16.row.col.f16.$F8.$F8.f16 : =-f16x2*2 b32*2 b32*1 -f16x2*2 : sm_89 8.7
mma.sync.aligned.m16n8k32.row.col.f16.$F8.$F8.f16 : =-f16x2*2 b32*4 b32*2 -f16x2*2 : sm_89 8.7
mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.$F8.$F8.f32 : =f32*4 b32*4 b32*2 f32*4 : sm_100f 8.6
mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f16.$F8.$F8.f16 : =f16x2*2 b32*4 b32*2 f16x2*2 : sm_100f 8.7
mma.sync.aligned.m8n8k16.row.col{.satfinite}.s32.[s8 u8].[s8 u8].s32 : =b32*2 i32*1 i32*1 s32*2 : sm_75 6.5
mma.sync.aligned.m16n8k16.row.col{.satfinite}.s32.[s8 u8].[s8 u8].s32 : =b32*4 i32*2 i32*1 s32*4 : sm_80 7.0
mma.sync.aligned.m16n8k32.row.col{.satfinite}.s32.[s8 u8].[s8 u8].s32 : =b32*4 i32*4 i32*2 s32*4 : sm_80 7.0
mma.sync.aligned.m8n8k32.row.col{.satfinite}.s32.[s4 u4].[s4 u4].s32 : =b32*2 i32*1 i32*1 s32*2 : sm_75 6.5
mma.sync.aligned.m16n8k32.row.col{.satfinite}.s32.[s4 u4].[s4 u4].s32 : =b32*4 i32*2 i32*1 s32*4 : sm_80 7.0
mma.sync.aligned.m16n8k64.row.col{.satfinite}.s32.[s4 u4].[s4 u4].s32 : =b32*4 i32*4 i32*2 s32*4 : sm_80 7.0
mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc : =b32*2 b32*1 b32*1 s32*2 : sm_75 7.0
mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc : =b32*4 b32*2 b32*1 s32*4 : sm_80 7.0
mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc : =b32*4 b32*4 b32*2 s32*4 : sm_80 7.0
mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc : =b32*2 b32*1 b32*1 s32*2 : sm_80 7.1
mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc : =b32*4 b32*2 b32*1 s32*4 : sm_80 7.1
mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc : =b32*4 b32*4 b32*2 s32*4 : sm_80 7.1
"""

WARPGROUP = """
wgmma.fence.sync.aligned : : sm_90a 8.0
wgmma.commit_group.sync.aligned : : sm_90a 8.0
wgmma.wait_group.sync.aligned : #0..2147483647 : sm_90a 8.0
$MULTIPLY.S[$N16].f32.f16.f16 : =f32*S u64 u64 ! #-1,1 #-1,1 #0,1 #0,1 : sm_90a 8.0
$MULTIPLY.S[$N16].f32.f16.f16 : =f32*S f16x2*4 u64 ! #-1,1 #-1,1 #0,1 : sm_90a 8.0
$MULTIPLY.S[$N16].f32.bf16.bf16 : =f32*S u64 u64 ! #-1,1 #-1,1 #0,1 #0,1 : sm_90a 8.0
$MULTIPLY.S[$N16].f32.bf16.bf16 : =f32*S bf16x2*4 u64 ! #-1,1 #-1,1 #0,1 : sm_90a 8.0
$MULTIPLY.S[$N16].f16.f16.f16 : =f16x2*S u64 u64 ! #-1,1 #-1,1 #0,1 #0,1 : sm_90a 8.0
$MULTIPLY.S[$N16].f16.f16.f16 : =f16x2*S f16x2*4 u64 ! #-1,1 #-1,1 #0,1 : sm_90a 8.0
$MULTIPLY.S[$N8].f32.tf32.tf32 : =f32*S u64 u64 ! #-1,1 #-1,1 : sm_90a 8.0
$MULTIPLY.S[$N8].f32.tf32.tf32 : =f32*S b32*4 u64 ! #-1,1 #-1,1 : sm_90a 8.0
$MULTIPLY.S[$N32].f32.$F8.$F8 : =f32*S u64 u64 ! #-1,1 #-1,1 : sm_90a 8.0
$MULTIPLY.S[$N32].f32.$F8.$F8 : =f32*S b32*4 u64 ! #-1,1 #-1,1 : sm_90a 8.0
$MULTIPLY.S[$N32].f16.$F8.$F8 : =f16x2*S u64 u64 ! #-1,1 #-1,1 : sm_90a 8.0
$MULTIPLY.S[$N32].f16.$F8.$F8 : =f16x2*S b32*4 u64 ! #-1,1 #-1,1 : sm_90a 8.0
$MULTIPLY.S[$I32].s32.s8.s8{.satfinite} : =s32*S u64 u64 ! : sm_90a 8.0
$MULTIPLY.S[$I32].s32.s8.s8{.satfinite} : =s32*S b32*4 u64 ! : sm_90a 8.0
$MULTIPLY.S[$I32].s32.s8.u8{.satfinite} : =s32*S u64 u64 ! : sm_90a 8.4
$MULTIPLY.S[$I32].s32.s8.u8{.satfinite} : =s32*S b32*4 u64 ! : sm_90a 8.4
$MULTIPLY.S[$I32].s32.u8.u8{.satfinite} : =s32*S u64 u64 ! : sm_90a 8.0
$MULTIPLY.S[$I32].s32.u8.u8{.satfinite} : =s32*S b32*4 u64 ! : sm_90a 8.0
$MULTIPLY.S[$I32].s32.u8.s8{.satfinite} : =s32*S u64 u64 ! : sm_90a 8.4
$MULTIPLY.S[$I32].s32.u8.s8{.satfinite} : =s32*S b32*4 u64 ! : sm_90a 8.4
"""

CONTROL = """
bra{.uni} : label
brx.idx{.uni} : u32 table
ret{.uni} :
exit|trap|brkpt :
nanosleep.u32 : u32 : sm_70 6.2
pmevent : #0..15
"""

FORMS = (MOVEMENT, MEMORY, ATOMICS, ASYNCHRONOUS, WARP, MATRIX, WARPGROUP, CONTROL)
