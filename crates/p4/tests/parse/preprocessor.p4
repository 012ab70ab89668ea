#include <nothing.p4> // error: the include `nothing.p4` is not found
#include <v1modl.p4>  // error: the include `v1modl.p4` is not found
                      // help: did you mean `v1model.p4`?
#include nothing      // error: this is not an include
#incldue <core.p4>    // error: unknown directive `#incldue`
                      // help: did you mean `#include`?
#if 1 +               // error: this condition is not an integer expression
#endif
#endif                // error: `#endif` without an `#if`
#warning careful      // warning: #warning careful
#error stop           // error: #error stop
#define ONE(a) a
const bit<8> a = ONE(1, 2); // error: macro `ONE` takes 1 argument, 2 given
// error@13: expected an expression
#define              // error: `#define` without a name
#line 3 "elsewhere.p4"
#pragma once
# 1 "a marker"
#if 0
# nonsense is left out
#else
#else                // error: `#else` after `#else`
#endif
const bit<8> line = __LINE__;
# a comment as in a shell // warning: this line is no directive
## and another             // warning: this line is no directive
                           // help: a comment begins with `//`
#if 1                // error: an `#if` without its `#endif`
