/* The engine's elementary functions: k_<name>_<lane>(vector, …). No libm anywhere. */
#ifndef GRADMILL_KMATH_H
#define GRADMILL_KMATH_H

#include "kmath_f32.h"
#include "kmath_f64.h"
#include "kmath_int.h"
#include "kmath_mod.h"

#endif
