// A file that others include is right without a `main`.
const bit<8> PORTS = 4;
