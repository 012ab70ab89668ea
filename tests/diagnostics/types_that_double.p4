// Types and values that double: one mistake each, told at once.
struct s0 { bit<8> a; bit<8> b; }
struct s1 { s0 a; s0 b; }
struct s2 { s1 a; s1 b; }
struct s3 { s2 a; s2 b; }
struct s4 { s3 a; s3 b; }
struct s5 { s4 a; s4 b; }
struct s6 { s5 a; s5 b; }
struct s7 { s6 a; s6 b; }
struct s8 { s7 a; s7 b; }
struct s9 { s8 a; s8 b; }
struct s10 { s9 a; s9 b; }
struct s11 { s10 a; s10 b; }
struct s12 { s11 a; s11 b; }
struct s13 { s12 a; s12 b; }
struct s14 { s13 a; s13 b; }
struct s15 { s14 a; s14 b; }
struct s16 { s15 a; s15 b; }
struct s17 { s16 a; s16 b; }
struct s18 { s17 a; s17 b; } // error: this type has more than 262144 parts
struct s19 { s18 a; s18 b; }
struct s20 { s19 a; s19 b; }
struct s21 { s20 a; s20 b; }
struct s22 { s21 a; s21 b; }
struct s23 { s22 a; s22 b; }
struct s24 { s23 a; s23 b; }
struct pair<A, B> { A first; B second; }
typedef pair<bit<8>, bit<8>> p0;
typedef pair<p0, p0> p1;
typedef pair<p1, p1> p2;
typedef pair<p2, p2> p3;
typedef pair<p3, p3> p4;
typedef pair<p4, p4> p5;
typedef pair<p5, p5> p6;
typedef pair<p6, p6> p7;
typedef pair<p7, p7> p8;
typedef pair<p8, p8> p9;
typedef pair<p9, p9> p10;
typedef pair<p10, p10> p11;
typedef pair<p11, p11> p12;
typedef pair<p12, p12> p13;
typedef pair<p13, p13> p14;
typedef pair<p14, p14> p15;
typedef pair<p15, p15> p16;
typedef pair<p16, p16> p17; // error: this type has more than 262144 parts
typedef pair<p17, p17> p18;
typedef pair<p18, p18> p19;
typedef pair<p19, p19> p20;
typedef pair<p20, p20> p21;
typedef pair<p21, p21> p22;
typedef pair<p22, p22> p23;
typedef pair<p23, p23> p24;
typedef pair<p24, p24> p25;
typedef pair<p25, p25> p26;
typedef pair<p26, p26> p27;
typedef pair<p27, p27> p28;
typedef pair<p28, p28> p29;
typedef pair<p29, p29> p30;
typedef pair<p30, p30> p31;
typedef pair<p31, p31> p32;
typedef pair<p32, p32> p33;
typedef pair<p33, p33> p34;
typedef pair<p34, p34> p35;
typedef pair<p35, p35> p36;
typedef pair<p36, p36> p37;
typedef pair<p37, p37> p38;
typedef pair<p38, p38> p39;
typedef tuple<bit<8>, bit<8>> t0;
typedef tuple<t0, t0> t1;
typedef tuple<t1, t1> t2;
typedef tuple<t2, t2> t3;
typedef tuple<t3, t3> t4;
typedef tuple<t4, t4> t5;
typedef tuple<t5, t5> t6;
typedef tuple<t6, t6> t7;
typedef tuple<t7, t7> t8;
typedef tuple<t8, t8> t9;
typedef tuple<t9, t9> t10;
typedef tuple<t10, t10> t11;
typedef tuple<t11, t11> t12;
typedef tuple<t12, t12> t13;
typedef tuple<t13, t13> t14;
typedef tuple<t14, t14> t15;
typedef tuple<t15, t15> t16;
typedef tuple<t16, t16> t17;
typedef tuple<t17, t17> t18; // error: this type has more than 262144 parts
typedef tuple<t18, t18> t19;
typedef tuple<t19, t19> t20;
typedef tuple<t20, t20> t21;
typedef tuple<t21, t21> t22;
typedef tuple<t22, t22> t23;
typedef tuple<t23, t23> t24;
typedef tuple<t24, t24> t25;
typedef tuple<t25, t25> t26;
typedef tuple<t26, t26> t27;
typedef tuple<t27, t27> t28;
typedef tuple<t28, t28> t29;
typedef tuple<t29, t29> t30;
typedef tuple<t30, t30> t31;
typedef tuple<t31, t31> t32;
typedef tuple<t32, t32> t33;
typedef tuple<t33, t33> t34;
typedef tuple<t34, t34> t35;
typedef tuple<t35, t35> t36;
typedef tuple<t36, t36> t37;
typedef tuple<t37, t37> t38;
typedef tuple<t38, t38> t39;
const string w0 = "0123456789abcdef";
const string w1 = w0 ++ w0;
const string w2 = w1 ++ w1;
const string w3 = w2 ++ w2;
const string w4 = w3 ++ w3;
const string w5 = w4 ++ w4;
const string w6 = w5 ++ w5;
const string w7 = w6 ++ w6;
const string w8 = w7 ++ w7;
const string w9 = w8 ++ w8;
const string w10 = w9 ++ w9;
const string w11 = w10 ++ w10;
const string w12 = w11 ++ w11;
const string w13 = w12 ++ w12; // error: this value is too large to be meant
const string w14 = w13 ++ w13;
const string w15 = w14 ++ w14;
const string w16 = w15 ++ w15;
const string w17 = w16 ++ w16;
const string w18 = w17 ++ w17;
const string w19 = w18 ++ w18;
