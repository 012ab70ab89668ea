// What C's preprocessor does with macros, GNU's forms included: all of it is accepted.
#define COUNT(...) tuple<__VA_ARGS__>
#define LOG(name, text, args...) const string name = text
#define PASS(name, args...) const bit<8> name = SECOND(1, ## args)
#define SECOND(first, ...) __VA_OPT__(__VA_ARGS__ +) first
#define SAME(x) x
#define INDIRECT SAME
#define JOIN(a, b) a##b
#define JOIN_EXPANDED(a, b) JOIN(a, b)
#define TEXT(x) #x
#define TEXTS(...) #__VA_ARGS__
#define OPTIONAL(a, ...) bit<8> a __VA_OPT__(= __VA_ARGS__)
#define SELF SELF_TOO
#define SELF_TOO SELF
#define NONE() 4
#define SAI(name, ...) @SaiCounter[__VA_ARGS__] const bit<32> name = 1;

typedef COUNT(bit<8>, bit<16>) pair;
LOG(k, "a", 1, 2);
LOG(j, "a");
PASS(p0);
PASS(p2, 2);
// The name of a macro comes from one, its arguments from the text.
const bit<8> i = INDIRECT(1);
// An empty operand of `##` leaves the other one alone.
const bit<8> JOIN(foo,) = NONE();
const bit<8> JOIN(, bar) = SAME(SAME(2));
const bit<8> JOIN_EXPANDED(line, __LINE__) = 2;
const bit<8> uses_them = foo + bar + line27;
const string quoted = TEXT(a +  b "x\n" c);
const string list = TEXTS(a, b);
SAI(packets, type="stats", action_names="x")
SAI(bytes)
// Directives may stand among the arguments.
const bit<8> chosen = SAME(
#ifdef FROM_NOWHERE
    nonsense
#elifdef FROM_OUTSIDE
    2
#else
    more nonsense
#endif
);
#ifdef FROM_OUTSIDE and what follows is passed over
const bit<8> taken = 1;
#endif
#undef TEXT and what follows
#ifndef TEXT
const bit<8> gone = taken;
#endif

@lines("
#ifdef FROM_OUTSIDE
    x == 1;
#else
    \" is not lexed at all
#endif
    # this is text
")
control c() {
    bit<8> SELF_TOO_IS = 1;
    apply {
        OPTIONAL(v, 3);
        OPTIONAL(w);
        w = v;
    }
}
