/* Written by `python -m engine.native.minimax`; do not edit. */
#ifndef GRADMILL_KMATH_POLY_H
#define GRADMILL_KMATH_POLY_H

#include "vec.h"

#define K_LN2_HIGH_f32 0x1.62e4p-1f
#define K_LN2_LOW_f32 0x1.7f7d1cp-20f
#define K_LN2_HIGH_f64 0x1.62e42fefa4p-1
#define K_LN2_LOW_f64 -0x1.8432a1b0e2634p-43
#define K_PIO2_1_f32 0x1.921fb6p+0f
#define K_PIO2_2_f32 -0x1.777a5cp-25f
#define K_PIO2_3_f32 -0x1.ee59dap-50f
#define K_PIO2_1_f64 0x1.921fb54442d18p+0
#define K_PIO2_2_f64 0x1.1a62633145c07p-54
#define K_PIO2_3_f64 -0x1.f1976b7ed8fbcp-110
#define K_PIO4_1_f32 0x1.921fb6p-1f
#define K_PIO4_2_f32 -0x1.777a5cp-26f
#define K_PIO4_1_f64 0x1.921fb54442d18p-1
#define K_PIO4_2_f64 0x1.1a62633145c07p-55
#define K_TWO_THIRDS_1_f64 0x1.5555555555555p-1
#define K_TWO_THIRDS_2_f64 0x1.5555555555555p-55
static const uint64_t k_two_over_pi[21] = {
    0x0000000000000000u, 0xa2f9836e4e441529u, 0xfc2757d1f534ddc0u, 0xdb6295993c439041u,
    0xfe5163abdebbc561u, 0xb7246e3a424dd2e0u, 0x06492eea09d1921cu, 0xfe1deb1cb129a73eu,
    0xe88235f52ebb4484u, 0xe99c7026b45f7e41u, 0x3991d639835339f4u, 0x9c845f8bbdf9283bu,
    0x1ff897ffde05980fu, 0xef2f118b5a0a6d1fu, 0x6d367ecf27cb09b7u, 0x4f463f669e5fea2du,
    0x7527bac7ebe5f17bu, 0x3d0739f78a5292eau, 0x6bfb5fb11f8d5d08u, 0x56033046fc7b6babu,
    0xf0cfbc209af4361du};

/* e^r = 1 + r + r^2 p(r), |r| <= ln2/2; weighted error 2^-28.2 */
VEC_FN vf32 k_poly_exp_f32(vf32 x) {
    vf32 p = set1_f32(0x1.6ac794p-10f);
    p = fma_f32(p, x, set1_f32(0x1.123de2p-7f));
    p = fma_f32(p, x, set1_f32(0x1.555858p-5f));
    p = fma_f32(p, x, set1_f32(0x1.55548cp-3f));
    p = fma_f32(p, x, set1_f32(0x1.fffffcp-2f));
    return p;
}

/* log(1 + f) = f + f^2 p(f), |f| <= 1/3; weighted error 2^-27.6 */
VEC_FN vf32 k_poly_log_f32(vf32 x) {
    vf32 p = set1_f32(-0x1.ffd55p-4f);
    p = fma_f32(p, x, set1_f32(0x1.1febf8p-3f));
    p = fma_f32(p, x, set1_f32(-0x1.f6ae7ep-4f));
    p = fma_f32(p, x, set1_f32(0x1.1e837cp-3f));
    p = fma_f32(p, x, set1_f32(-0x1.557e4p-3f));
    p = fma_f32(p, x, set1_f32(0x1.99d584p-3f));
    p = fma_f32(p, x, set1_f32(-0x1.ffff94p-3f));
    p = fma_f32(p, x, set1_f32(0x1.5554fap-2f));
    p = fma_f32(p, x, set1_f32(-0x1p-1f));
    return p;
}

/* tanh(s) = s + s^3 p(s^2), |s| <= 0.55; weighted error 2^-29.7 */
VEC_FN vf32 k_poly_tanh_f32(vf32 x) {
    vf32 p = set1_f32(-0x1.9921ap-8f);
    p = fma_f32(p, x, set1_f32(0x1.58e518p-6f));
    p = fma_f32(p, x, set1_f32(-0x1.b91e7ep-5f));
    p = fma_f32(p, x, set1_f32(0x1.110ceep-3f));
    p = fma_f32(p, x, set1_f32(-0x1.55554ap-2f));
    return p;
}

/* erf(s) = s + s p(s^2), |s| <= 1.0; weighted error 2^-29.4 */
VEC_FN vf32 k_poly_erf_small_f32(vf32 x) {
    vf32 p = set1_f32(0x1.4771fcp-14f);
    p = fma_f32(p, x, set1_f32(-0x1.a3515ep-11f));
    p = fma_f32(p, x, set1_f32(0x1.53f224p-8f));
    p = fma_f32(p, x, set1_f32(-0x1.b7f71ap-6f));
    p = fma_f32(p, x, set1_f32(0x1.ce2ce6p-4f));
    p = fma_f32(p, x, set1_f32(-0x1.81273ep-2f));
    p = fma_f32(p, x, set1_f32(0x1.06eba8p-3f));
    return p;
}

/* 1 - erf(s) = e^p(s - 1), 1 <= s <= 4.0; weighted error 2^-26.9 */
VEC_FN vf32 k_poly_erf_tail_f32(vf32 x) {
    vf32 p = set1_f32(0x1.37dac8p-13f);
    p = fma_f32(p, x, set1_f32(-0x1.14cd98p-11f));
    p = fma_f32(p, x, set1_f32(-0x1.205838p-11f));
    p = fma_f32(p, x, set1_f32(0x1.2115e6p-7f));
    p = fma_f32(p, x, set1_f32(-0x1.5070dcp-5f));
    p = fma_f32(p, x, set1_f32(-0x1.afb754p-1f));
    p = fma_f32(p, x, set1_f32(-0x1.51c982p+1f));
    p = fma_f32(p, x, set1_f32(-0x1.d97fcp+0f));
    return p;
}

/* sin(s) = s + s^3 p(s^2), |s| <= 0.7854; weighted error 2^-27.9 */
VEC_FN vf32 k_poly_sin_f32(vf32 x) {
    vf32 p = set1_f32(-0x1.99540ap-13f);
    p = fma_f32(p, x, set1_f32(0x1.110778p-7f));
    p = fma_f32(p, x, set1_f32(-0x1.555546p-3f));
    return p;
}

/* cos(s) = 1 - s^2/2 + s^4 p(s^2), |s| <= 0.7854; weighted error 2^-33.1 */
VEC_FN vf32 k_poly_cos_f32(vf32 x) {
    vf32 p = set1_f32(0x1.99e0ecp-16f);
    p = fma_f32(p, x, set1_f32(-0x1.6c0c1ap-10f));
    p = fma_f32(p, x, set1_f32(0x1.55554ap-5f));
    return p;
}

/* atan(s) = s + s^3 p(s^2), |s| <= 0.41422; weighted error 2^-30.4 */
VEC_FN vf32 k_poly_atan_f32(vf32 x) {
    vf32 p = set1_f32(-0x1.f2e58cp-5f);
    p = fma_f32(p, x, set1_f32(0x1.b22454p-4f));
    p = fma_f32(p, x, set1_f32(-0x1.23b9a2p-3f));
    p = fma_f32(p, x, set1_f32(0x1.9991e2p-3f));
    p = fma_f32(p, x, set1_f32(-0x1.55554ap-2f));
    return p;
}

/* e^r = 1 + r + r^2 p(r), |r| <= ln2/2; weighted error 2^-57.8 */
VEC_FN vf64 k_poly_exp_f64(vf64 x) {
    vf64 p = set1_f64(0x1.ade2a96c5fb8bp-26);
    p = fma_f64(p, x, set1_f64(0x1.28aee500af96cp-22));
    p = fma_f64(p, x, set1_f64(0x1.71def046b8ca2p-19));
    p = fma_f64(p, x, set1_f64(0x1.a019988681b9ap-16));
    p = fma_f64(p, x, set1_f64(0x1.a01a013df361cp-13));
    p = fma_f64(p, x, set1_f64(0x1.6c16c184b686cp-10));
    p = fma_f64(p, x, set1_f64(0x1.1111111124d2p-7));
    p = fma_f64(p, x, set1_f64(0x1.5555555550603p-5));
    p = fma_f64(p, x, set1_f64(0x1.5555555555503p-3));
    p = fma_f64(p, x, set1_f64(0x1.000000000000ap-1));
    return p;
}

/* e^r = 1 + r + r^2 p(r), |r| <= ln2/2; weighted error 2^-33.5 */
VEC_FN vf64 k_poly_exp_short_f64(vf64 x) {
    vf64 p = set1_f64(0x1.98d06bd255623p-13);
    p = fma_f64(p, x, set1_f64(0x1.6d92a53f8a251p-10));
    p = fma_f64(p, x, set1_f64(0x1.1116bb79415e4p-7));
    p = fma_f64(p, x, set1_f64(0x1.55548959cb412p-5));
    p = fma_f64(p, x, set1_f64(0x1.555551899cdf8p-3));
    p = fma_f64(p, x, set1_f64(0x1.0000003a1990ep-1));
    return p;
}

/* log((1+s)/(1-s)) = 2 s + s^3 p(s^2), |s| <= 0.17158; weighted error 2^-58.5 */
VEC_FN vf64 k_poly_log_f64(vf64 x) {
    vf64 p = set1_f64(0x1.2f043cd959ee2p-3);
    p = fma_f64(p, x, set1_f64(0x1.39a1dcdd1ad5cp-3));
    p = fma_f64(p, x, set1_f64(0x1.74663d57e171fp-3));
    p = fma_f64(p, x, set1_f64(0x1.c71c52128f2c3p-3));
    p = fma_f64(p, x, set1_f64(0x1.24924941e3113p-2));
    p = fma_f64(p, x, set1_f64(0x1.999999997ff05p-2));
    p = fma_f64(p, x, set1_f64(0x1.5555555555592p-1));
    return p;
}

/* log((1+s)/(1-s)) = 2 s + s^3 p(s^2), |s| <= 0.17158; weighted error 2^-36.6 */
VEC_FN vf64 k_poly_log_short_f64(vf64 x) {
    vf64 p = set1_f64(0x1.e2f6f8f3d82cbp-3);
    p = fma_f64(p, x, set1_f64(0x1.2438d3bc56912p-2));
    p = fma_f64(p, x, set1_f64(0x1.999a7a9a5e3ecp-2));
    p = fma_f64(p, x, set1_f64(0x1.555554fd9367p-1));
    return p;
}

/* log((1+s)/(1-s)) = 2 s + 2/3 s^3 + s^5 p(s^2), |s| <= 0.17158; weighted error 2^-65.3 */
VEC_FN vf64 k_poly_log_pow_f64(vf64 x) {
    vf64 p = set1_f64(0x1.0e42bb5f39814p-3);
    p = fma_f64(p, x, set1_f64(0x1.0f7fe859d05b7p-3));
    p = fma_f64(p, x, set1_f64(0x1.3b1eec1444817p-3));
    p = fma_f64(p, x, set1_f64(0x1.745ce9e343f4bp-3));
    p = fma_f64(p, x, set1_f64(0x1.c71c722d664a3p-3));
    p = fma_f64(p, x, set1_f64(0x1.2492492457d62p-2));
    p = fma_f64(p, x, set1_f64(0x1.9999999999b3p-2));
    return p;
}

/* tanh(s) = s + s^3 p(s^2), |s| <= 0.55; weighted error 2^-60.6 */
VEC_FN vf64 k_poly_tanh_f64(vf64 x) {
    vf64 p = set1_f64(-0x1.46fa0923ef57fp-16);
    p = fma_f64(p, x, set1_f64(0x1.5d6aaf42c088bp-14));
    p = fma_f64(p, x, set1_f64(-0x1.e96c4761a87ecp-13));
    p = fma_f64(p, x, set1_f64(0x1.348353b75cf59p-11));
    p = fma_f64(p, x, set1_f64(-0x1.7d8fc84ced4fap-10));
    p = fma_f64(p, x, set1_f64(0x1.d6d29aaebb01bp-9));
    p = fma_f64(p, x, set1_f64(-0x1.226e2f0e9b88dp-7));
    p = fma_f64(p, x, set1_f64(0x1.664f485941fc2p-6));
    p = fma_f64(p, x, set1_f64(-0x1.ba1ba1b97cb5ep-5));
    p = fma_f64(p, x, set1_f64(0x1.111111111079p-3));
    p = fma_f64(p, x, set1_f64(-0x1.555555555554fp-2));
    return p;
}

/* erf(s) = s + s p(s^2), |s| <= 1.0; weighted error 2^-56.0 */
VEC_FN vf64 k_poly_erf_small_f64(vf64 x) {
    vf64 p = set1_f64(-0x1.a21abe3fcf879p-31);
    p = fma_f64(p, x, set1_f64(0x1.d3d30597a0fb1p-27));
    p = fma_f64(p, x, set1_f64(-0x1.5b8b102913665p-23));
    p = fma_f64(p, x, set1_f64(0x1.b96b2620c0e38p-20));
    p = fma_f64(p, x, set1_f64(-0x1.f4c82acb498e6p-17));
    p = fma_f64(p, x, set1_f64(0x1.f9a2967b47f5ap-14));
    p = fma_f64(p, x, set1_f64(-0x1.c02daeb529a5cp-11));
    p = fma_f64(p, x, set1_f64(0x1.565bcceed155fp-8));
    p = fma_f64(p, x, set1_f64(-0x1.b82ce311a951dp-6));
    p = fma_f64(p, x, set1_f64(0x1.ce2f21a03f8b4p-4));
    p = fma_f64(p, x, set1_f64(-0x1.812746b03799dp-2));
    p = fma_f64(p, x, set1_f64(0x1.06eba8214db68p-3));
    return p;
}

/* 1 - erf(s) = e^p(s - 1), 1 <= s <= 6.0; weighted error 2^-57.0 */
VEC_FN vf64 k_poly_erf_tail_f64(vf64 x) {
    vf64 p = set1_f64(-0x1.5c2a13cf915f3p-38);
    p = fma_f64(p, x, set1_f64(0x1.0a660fa343294p-33));
    p = fma_f64(p, x, set1_f64(-0x1.6f87ecd5a68d7p-30));
    p = fma_f64(p, x, set1_f64(0x1.2854fec3c7265p-27));
    p = fma_f64(p, x, set1_f64(-0x1.225e93a3f706cp-25));
    p = fma_f64(p, x, set1_f64(0x1.fc01df581c39bp-25));
    p = fma_f64(p, x, set1_f64(0x1.b309b64051fap-23));
    p = fma_f64(p, x, set1_f64(-0x1.1db59dd8f59f8p-19));
    p = fma_f64(p, x, set1_f64(0x1.4466b83cb30c1p-17));
    p = fma_f64(p, x, set1_f64(-0x1.c846fb1585fadp-16));
    p = fma_f64(p, x, set1_f64(0x1.b92727ca39006p-16));
    p = fma_f64(p, x, set1_f64(0x1.f1b0a22589d49p-13));
    p = fma_f64(p, x, set1_f64(-0x1.033f5b9fc5f4cp-9));
    p = fma_f64(p, x, set1_f64(0x1.48c9d39257917p-7));
    p = fma_f64(p, x, set1_f64(-0x1.5477f09a4045p-5));
    p = fma_f64(p, x, set1_f64(-0x1.afabc11a2a71ap-1));
    p = fma_f64(p, x, set1_f64(-0x1.51c9b0006c22ap+1));
    p = fma_f64(p, x, set1_f64(-0x1.d97fbf27aa2a1p+0));
    return p;
}

/* sin(s) = s + s^3 p(s^2), |s| <= 0.7854; weighted error 2^-57.9 */
VEC_FN vf64 k_poly_sin_f64(vf64 x) {
    vf64 p = set1_f64(0x1.5d8b759aa7649p-33);
    p = fma_f64(p, x, set1_f64(-0x1.ae5e4bd94fc33p-26));
    p = fma_f64(p, x, set1_f64(0x1.71de35557badfp-19));
    p = fma_f64(p, x, set1_f64(-0x1.a01a019be95f7p-13));
    p = fma_f64(p, x, set1_f64(0x1.111111110f731p-7));
    p = fma_f64(p, x, set1_f64(-0x1.5555555555548p-3));
    return p;
}

/* cos(s) = 1 - s^2/2 + s^4 p(s^2), |s| <= 0.7854; weighted error 2^-64.2 */
VEC_FN vf64 k_poly_cos_f64(vf64 x) {
    vf64 p = set1_f64(-0x1.8fb130bb98928p-37);
    p = fma_f64(p, x, set1_f64(0x1.1ee9f1525c948p-29));
    p = fma_f64(p, x, set1_f64(-0x1.27e4f812b66fap-22));
    p = fma_f64(p, x, set1_f64(0x1.a01a019cbf62cp-16));
    p = fma_f64(p, x, set1_f64(-0x1.6c16c16c1521fp-10));
    p = fma_f64(p, x, set1_f64(0x1.555555555554cp-5));
    return p;
}

/* atan(s) = s + s^3 p(s^2), |s| <= 0.41422; weighted error 2^-59.4 */
VEC_FN vf64 k_poly_atan_f64(vf64 x) {
    vf64 p = set1_f64(-0x1.256908786e74cp-6);
    p = fma_f64(p, x, set1_f64(0x1.37d4f49a8fe76p-5));
    p = fma_f64(p, x, set1_f64(-0x1.9cd26f220ad3bp-5));
    p = fma_f64(p, x, set1_f64(0x1.df0f3835f68b6p-5));
    p = fma_f64(p, x, set1_f64(-0x1.10ebb6e062105p-4));
    p = fma_f64(p, x, set1_f64(0x1.3b1118fbb69edp-4));
    p = fma_f64(p, x, set1_f64(-0x1.745cf8daa1fe1p-4));
    p = fma_f64(p, x, set1_f64(0x1.c71c70e601501p-4));
    p = fma_f64(p, x, set1_f64(-0x1.24924922ad448p-3));
    p = fma_f64(p, x, set1_f64(0x1.9999999995868p-3));
    p = fma_f64(p, x, set1_f64(-0x1.555555555553dp-2));
    return p;
}

#endif
