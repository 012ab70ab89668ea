/* Jobs: what remains to be done for a packet and its copies. All of them share the packet's tail; each has its own bytes in front of the tail
 * (`struct front`) and its own state. */
enum { RING = 32 };      /* number of jobs that may wait, a power of two */
enum { FRONT = 512 };    /* most bytes in front of the tail */
enum { ARRIVED = 384 };  /* bytes in front of the tail when the packet arrives; the others are room for headers that are added */
enum { MOST_STEPS = 4096 }; /* jobs, and members of groups, for one packet that arrives */
enum { ENTER = 0, GROUP = 64 }; /* kinds of jobs: ENTER plus a stage, or GROUP plus the number of a path */

struct job {
    u32 kind;
    u32 to;         /* the multicast group */
    u32 member;     /* the next member of the group */
    u32 list, members; /* the group's list of copies, once the first member is known, and their number */
    u32 front;      /* number of bytes in front of the tail */
    u32 protocol;   /* the EtherType that the kernel knows */
    u32 in_place;   /* 1 if the packet has these bytes already */
};

struct jobs {
    u32 first, count, rounds;
    u32 busy;   /* 1 while the first job is being processed */
    u32 more;   /* 1 while the first job is that of a group with further members */
    u32 tail;   /* number of bytes that all jobs share */
    MEMBERS
    struct job entered; /* the bytes with which the packet entered the stage */
    struct job ring[RING];
};

struct front {
    u8 bytes[FRONT];
};
