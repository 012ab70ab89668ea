#include <core.p4>
#include <tna.p4> // error: the include `tna.p4` is not found
                  // help: this is the architecture of Tofino
