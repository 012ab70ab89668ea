// The entries of learn_v1model expire: time passes, which the kernel's targets cannot be told.
#include "learn_v1model.p4"
