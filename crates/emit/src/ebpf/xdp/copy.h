
/* Copies of a frame. A program at the XDP hook sends a frame once, or not at all. If several packets leave, it keeps the front of each of them in
 * a map, and passes the frame to the kernel. The program `strait_sender` at the tc hook of the same interface makes the packets of the fronts and the
 * tail of the frame, and sends them. The frame's metadata tell it where the fronts are. */
enum { KEPT = 2048 };     /* number of fronts that are kept for each processor, a power of two */
enum { MOST_SENT = 256 }; /* most packets that leave when a frame arrives */
enum { ETHERNET = 14 };   /* fewest bytes in front of the tail of the frame that is passed to the kernel */

/* A packet that leaves. A processor's copies are numbered from 1 on. If the processor uses the place again before tc has sent the packet, the number
 * is another one, and the packet is dropped. */
struct copy {
    u64 number;
    u32 port;
    u32 ifindex;
    u32 length;   /* number of bytes in front of the tail */
    u32 reserved;
    u8 bytes[FRONT];
};

/* The metadata of a frame that is passed to the kernel. The processor that received it may not be the one where tc runs. */
struct handover {
    u64 number;   /* the first copy */
    u32 place;    /* the place of the processor's first copy in the map */
    u32 count;    /* number of copies */
    u32 tail;     /* number of bytes that all copies share */
    u32 reserved;
};
