// Annotations: a structured one stands once, its values are simple, and a name is a string.
@once[1]
@once[2] // error: stands here twice
const bit<8> a = 1;
@pair[x = { 1, 2 }] // error: a number, a string or a boolean
const bit<8> b = 1;
@name(4) // error: takes a string
const bit<8> c = 1;
