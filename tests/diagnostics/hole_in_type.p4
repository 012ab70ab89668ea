// `_` is found from other arguments; where there are none, it is no type.
struct pair_t<T> { T x; T y; }
struct s_t {
    _ field; // error: `_` is no type here
}
const pair_t<_> p = { 1, 2 }; // error: `_` is no type here
extern E { void E(); } // error: is a constructor
