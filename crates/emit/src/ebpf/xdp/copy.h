
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

/* What a frame's metadata say. They have room for bytes in front of it, because the frame's start is not where it should be for tc if generic XDP has
 * copied the frame (Linux 6.9 and later; the copy's mac_len is 0): tc then sees it without its Ethernet header, and the metadata end that much later. */
struct __attribute__((packed)) handover {
    u32 number; /* the first copy */
    u16 cpu;    /* the processor that keeps the copies. tc may run on another one */
    u16 count;  /* number of copies */
    u32 tail;   /* number of bytes that all copies share */
    u32 magic;
};

enum { METADATA = 32, HANDOVER_MAGIC = 0x70346370 };
