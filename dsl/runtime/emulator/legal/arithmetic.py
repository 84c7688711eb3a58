"""Lists the legal forms of arithmetic, logic, comparison and conversion (PTX ISA 9.7.1 to 9.7.8)."""

MACROS = {
    "INT": "u16 u32 u64 s16 s32 s64",
    "BYTES": "u8 u16 u32 u64 s8 s16 s32 s64",
    "CC": "u32 s32 u64 s64",
    "RND": "rn rz rm rp",
    "ORDERED": "eq ne lt le gt ge",
    "FCMP": "eq ne lt le gt ge equ neu ltu leu gtu geu num nan",
    "UCMP": "eq ne lt le gt ge lo ls hi hs",
    "BOOL": "and or xor",
    "IRND": "rni rzi rmi rpi",
}

INTEGER = """
add|sub.T[$INT] : =T T T
add|sub.sat.T[s32] : =T T T
add.T[u16x2 s16x2] : =T T T : sm_90 8.0
add|sub.cc.T[$CC] : =T T T
addc|subc{.cc}.T[$CC] : =T T T
mul.[hi lo].T[$INT] : =T T T
mul.wide.u16 : =u32 u16 u16
mul.wide.s16 : =s32 s16 s16
mul.wide.u32 : =u64 u32 u32
mul.wide.s32 : =s64 s32 s32
mad.[hi lo].T[$INT] : =T T T T
mad.hi.sat.T[s32] : =T T T T
mad.wide.u16 : =u32 u16 u16 u32
mad.wide.s16 : =s32 s16 s16 s32
mad.wide.u32 : =u64 u32 u32 u64
mad.wide.s32 : =s64 s32 s32 s64
mad.[hi lo].cc.T[$CC] : =T T T T
madc.[hi lo]{.cc}.T[$CC] : =T T T T
mul24.[hi lo].T[u32 s32] : =T T T
mad24.[hi lo].T[u32 s32] : =T T T T
mad24.hi.sat.T[s32] : =T T T T
sad.T[$INT] : =T T T T
div|rem.T[$INT] : =T T T
abs|neg.T[s16 s32 s64] : =T T
min|max.T[$INT] : =T T T
min|max.T[u16x2] : =T T T : sm_90 8.0
min|max{.relu}.T[s16x2] : =T T T : sm_90 8.0
min|max.relu.T[s32] : =T T T : sm_90 8.0
popc|clz.T[b32 b64] : =u32 T
bfind{.shiftamt}.T[$CC] : =u32 T
fns.b32 : =b32 b32 b32 s32 : sm_30 6.0
brev.T[b32 b64] : =T T
bfe.T[$CC] : =T T byte byte
bfi.T[b32 b64] : =T T T byte byte
szext.[clamp wrap].T[u32 s32] : =T T u32 : sm_70 7.6
bmsk.[clamp wrap].b32 : =i32 i32 i32 : sm_70 7.6
dp4a.[u32 s32].[u32 s32] : =s32 u32 u32 s32 : sm_61 5.0
dp2a.[lo hi].[u32 s32].[u32 s32] : =s32 u32 u32 s32 : sm_61 5.0
and|or|xor.T[pred b16 b32 b64] : =T T T
not.T[pred b16 b32 b64] : =T T
cnot.T[b16 b32 b64] : =T T
lop3.b32 : =b32 b32 b32 b32 #0..255 : sm_50 4.3
shf.[l r].[clamp wrap].b32 : =b32 b32 b32 u32 : sm_32 3.1
shl.T[b16 b32 b64] : =T T u32
shr.T[b16 b32 b64 $INT] : =T T u32
prmt.b32{.[f4e b4e rc8 ecl ecr rc16]} : =b32 b32 b32 b32
"""

VIDEO = "\n".join(
    f"{name}.D[u32 s32].A[u32 s32].{second}{{.sat}}{mode}{form}"
    for name, second, mode in (
        *((name, "B[u32 s32]", "") for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax")),
        *((name, "B[u32]", ".[clamp wrap]") for name in ("vshl", "vshr")),
    )
    for form in (" : =D ^A ^B", ".[add min max] : =D ^A ^B D", " : =^D ^A ^B D")
)

FLOATING = """
add|sub|mul{.[$RND]}{.ftz}{.sat}.T[f32] : =T T T
add|sub|mul{.[$RND]}.T[f64] : =T T T
add|sub|mul{.rn}{.ftz}{.sat}.T[f16 f16x2] : =T T T : sm_53 4.2
add|sub|mul{.rn}.T[bf16 bf16x2] : =T T T : sm_90 7.8
add|sub{.[$RND]}{.sat}.f32.T[f16 bf16] : =f32 T f32 : sm_100 8.6
fma|mad.[$RND]{.ftz}{.sat}.T[f32] : =T T T T
fma|mad.[$RND].T[f64] : =T T T T
fma.[$RND]{.sat}.f32.T[f16 bf16] : =f32 T T f32 : sm_100 8.6
fma.rn{.ftz}{.sat}.T[f16 f16x2] : =T T T T : sm_53 4.2
fma.rn{.ftz}.relu.T[f16 f16x2] : =T T T T : sm_80 7.0
fma.rn{.relu}.T[bf16 bf16x2] : =T T T T : sm_80 7.0
div.[approx full]{.ftz}.T[f32] : =T T T
div.[$RND]{.ftz}.T[f32] : =T T T
div.[$RND].T[f64] : =T T T
abs|neg{.ftz}.T[f32] : =T T
abs|neg.T[f64] : =T T
abs{.ftz}.T[f16 f16x2] : =T T : sm_53 6.5
neg{.ftz}.T[f16 f16x2] : =T T : sm_53 6.0
abs|neg.T[bf16 bf16x2] : =T T : sm_80 7.0
min|max{.ftz}.T[f32] : =T T T
min|max{.ftz}.NaN.T[f32] : =T T T : sm_80 7.0
min|max{.ftz}{.NaN}.xorsign.abs.T[f32] : =T T T : sm_86 7.2
min|max.T[f64] : =T T T
min|max{.ftz}{.NaN}.T[f16 f16x2] : =T T T : sm_80 7.0
min|max{.ftz}{.NaN}.xorsign.abs.T[f16 f16x2] : =T T T : sm_86 7.2
min|max{.NaN}.T[bf16 bf16x2] : =T T T : sm_80 7.0
min|max{.NaN}.xorsign.abs.T[bf16 bf16x2] : =T T T : sm_86 7.2
min|max{.ftz}{.NaN}.T[f32] : =T T T T : sm_100 8.8
rcp|sqrt|rsqrt|ex2|lg2|sin|cos.approx{.ftz}.T[f32] : =T T
rcp|sqrt.[$RND]{.ftz}.T[f32] : =T T
rcp|sqrt.[$RND].T[f64] : =T T
rcp.approx.ftz.T[f64] : =T T
rsqrt.approx{.ftz}.T[f64] : =T T
ex2.approx.T[f16 f16x2] : =T T : sm_75 7.0
ex2.approx.ftz.T[bf16 bf16x2] : =T T : sm_90 7.8
tanh.approx.T[f32 f16 f16x2] : =T T : sm_75 7.0
tanh.approx.T[bf16 bf16x2] : =T T : sm_90 7.8
copysign.T[f32 f64] : =T T T
testp.[finite infinite number notanumber normal subnormal].T[f32 f64] : =pred T
"""

COMPARISON = """
setp.[eq ne]{.B[$BOOL]}.T[b16 b32 b64] : =_pred|pred? T T B?!
setp.[$UCMP]{.B[$BOOL]}.T[u16 u32 u64] : =_pred|pred? T T B?!
setp.[$ORDERED]{.B[$BOOL]}.T[s16 s32 s64] : =_pred|pred? T T B?!
setp.[$FCMP]{.B[$BOOL]}{.ftz}.T[f32] : =_pred|pred? T T B?!
setp.[$FCMP]{.B[$BOOL]}.T[f64] : =_pred|pred? T T B?!
setp.[$FCMP]{.B[$BOOL]}{.ftz}.T[f16] : =_pred T T B?! : sm_53 4.2
setp.[$FCMP]{.B[$BOOL]}{.ftz}.T[f16x2] : =_pred|pred T T B?! : sm_53 4.2
setp.[$FCMP]{.B[$BOOL]}.T[bf16] : =_pred T T B?*! : sm_90 7.8
setp.[$FCMP]{.B[$BOOL]}.T[bf16x2] : =_pred|pred T T B?*! : sm_90 7.8
set.[eq ne]{.B[$BOOL]}.D[u32 s32 f32].T[b16 b32 b64] : =D T T B?!
set.[$UCMP]{.B[$BOOL]}.D[u32 s32 f32].T[u16 u32 u64] : =D T T B?!
set.[$ORDERED]{.B[$BOOL]}.D[u32 s32 f32].T[s16 s32 s64] : =D T T B?!
set.[$FCMP]{.B[$BOOL]}{.ftz}.D[u32 s32 f32].T[f32] : =D T T B?!
set.[$FCMP]{.B[$BOOL]}.D[u32 s32 f32].T[f64] : =D T T B?!
set.[$FCMP]{.B[$BOOL]}{.ftz}.D[f16].T[f16] : =D T T B?! : sm_53 4.2
set.[$FCMP]{.B[$BOOL]}{.ftz}.D[u16 s16 u32 s32].T[f16] : =D T T B?! : sm_53 6.5
set.[$FCMP]{.B[$BOOL]}{.ftz}.D[f16x2].T[f16x2] : =D T T B?! : sm_53 4.2
set.[$FCMP]{.B[$BOOL]}{.ftz}.D[u32 s32].T[f16x2] : =D T T B?! : sm_53 6.5
set.[$FCMP].D[u16 s16 u32 s32 bf16].T[bf16] : =D T T : sm_90 7.8
set.[$FCMP].D[bf16x2 u32 s32].T[bf16x2] : =D T T : sm_90 7.8
selp.T[b16 b32 b64 $INT f32 f64] : =T T T !
slct.T[b16 b32 b64 $INT f32 f64].s32 : =T T T s32
slct{.ftz}.T[b16 b32 b64 $INT f32 f64].f32 : =T T T f32
"""

CONVERSION = """
cvt.D[$BYTES].S[$BYTES] : =~D %~S
cvt.sat.D[u8].S[u16 u32 u64 s8 s16 s32 s64] : =~D %~S
cvt.sat.D[u16].S[u32 u64 s8 s16 s32 s64] : =~D %~S
cvt.sat.D[u32].S[u64 s8 s16 s32 s64] : =~D %~S
cvt.sat.D[u64].S[s8 s16 s32 s64] : =~D %~S
cvt.sat.D[s8].S[u8 u16 u32 u64 s16 s32 s64] : =~D %~S
cvt.sat.D[s16].S[u16 u32 u64 s32 s64] : =~D %~S
cvt.sat.D[s32].S[u32 u64 s64] : =~D %~S
cvt.sat.D[s64].S[u64] : =~D %~S
cvt.[$IRND]{.sat}.D[$BYTES].S[f16 f64] : =~D ~S
cvt.[$IRND]{.ftz}{.sat}.D[$BYTES].S[f32] : =~D ~S
cvt.[$IRND].D[$BYTES].S[bf16] : =D S : sm_90 7.8
cvt.[$RND]{.sat}.D[f16 f64].S[$BYTES] : =~D ~S
cvt.[$RND]{.ftz}{.sat}.D[f32].S[$BYTES] : =~D ~S
cvt.[$RND].D[bf16].S[$BYTES] : =D S : sm_90 7.8
cvt{.ftz}{.sat}.D[f64].S[f32] : =~D ~S
cvt{.sat}.D[f64].S[f16] : =~D ~S
cvt{.ftz}{.sat}.D[f32].S[f16] : =~D ~S
cvt.rn{.ftz}{.sat}.D[f32].S[f64] : =~D ~S
cvt.[rz rm rp]{.sat}.D[f32].S[f64] : =~D ~S
cvt.[rz rm rp].ftz{.sat}.D[f32].S[f64] : =D ~S
cvt.[$RND]{.ftz}{.sat}.D[f16].S[f32] : =~D ~S
cvt.[$RND]{.sat}.D[f16].S[f64] : =~D ~S
cvt{.[$IRND]}{.ftz}{.sat}.D[f32].S[f32] : =~D ~S
cvt{.[$IRND]}{.sat}.D[f64].S[f64] : =~D ~S
cvt{.[$IRND]}{.sat}.D[f16].S[f16] : =~D ~S
cvt.[rn rz]{.relu}.D[f16].S[f32] : =D S : sm_80 7.0
cvt.[rn rz]{.relu}.D[bf16].S[f32] : =D S : sm_80 7.0
cvt.[rm rp].D[bf16].S[f32] : =D S : sm_80 7.0
cvt.D[f32].S[bf16] : =D S : sm_80 7.1
cvt.D[f64].S[bf16] : =D S : sm_90 7.8
cvt.[$RND].D[bf16].S[f64] : =D S : sm_90 7.8
cvt.[rn rz]{.relu}.D[f16x2 bf16x2].S[f32] : =D S S : sm_80 7.0
cvt.rna.D[tf32].f32 : =D *f32 : sm_80 7.0
cvt.[rn rz]{.relu}.D[tf32].f32 : =D f32 : sm_90 7.8
cvt.rn.satfinite{.relu}.D[e4m3x2 e5m2x2].f32 : =D f32 f32 : sm_89 8.1 | sm_90 7.8
cvt.rn.satfinite{.relu}.D[e4m3x2 e5m2x2].f16x2 : =D f16x2 : sm_89 8.1 | sm_90 7.8
cvt.rn{.relu}.f16x2.S[e4m3x2 e5m2x2] : =f16x2 S : sm_89 8.1 | sm_90 7.8
cvt.pack.sat.[u16 s16].s32 : =i32 s32 s32 : sm_72 6.5
cvt.pack.sat.[u8 s8].s32.b32 : =i32 s32 s32 b32 : sm_72 6.5
"""

FORMS = (INTEGER, VIDEO, FLOATING, COMPARISON, CONVERSION)
