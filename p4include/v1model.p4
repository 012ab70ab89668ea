// v1model: the architecture of BMv2's simple_switch, in Strait's own words.
//
//   parser → verify checksums → ingress → (buffer) → egress → compute checksums → deparser
//
// The declarations agree with those that p4c ships, so that a program moves
// between the compilers unchanged. What ends a packet's way is told below, at
// mark_to_drop.

#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include "core.p4"

// 20200408 and later make the index type of counters, meters and registers a
// parameter, and give ports a name. A program asks with a #define before the
// include.
#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif
#if V1MODEL_VERSION < 20180101
#error "V1MODEL_VERSION is 20180101 or later"
#endif

const bit<32> __v1model_version = V1MODEL_VERSION;

match_kind {
    range,      // low <= key <= high
    optional,   // exact, or anything
    selector    // not a match: input of an action selector's hash
}

#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#endif

// What the architecture knows about a packet beside its bytes.
@metadata @name("standard_metadata")
struct standard_metadata_t {
#if V1MODEL_VERSION >= 20200408
    PortId_t ingress_port;      // where the packet came in
    PortId_t egress_spec;       // written in ingress: where it shall go; 511 drops it
    PortId_t egress_port;       // read in egress: where it goes
#else
    bit<9>  ingress_port;
    bit<9>  egress_spec;
    bit<9>  egress_port;
#endif
    bit<32> instance_type;      // 0 as received; else clone, recirculation, resubmission, replica
    bit<32> packet_length;      // bytes on arrival

    // The packet buffer between ingress and egress; times in microseconds.
    @alias("queueing_metadata.enq_timestamp")
    bit<32> enq_timestamp;
    @alias("queueing_metadata.enq_qdepth")
    bit<19> enq_qdepth;
    @alias("queueing_metadata.deq_timedelta")
    bit<32> deq_timedelta;
    @alias("queueing_metadata.deq_qdepth")
    bit<19> deq_qdepth;

    // Microseconds since the switch started.
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48> ingress_global_timestamp;
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48> egress_global_timestamp;

    @alias("intrinsic_metadata.mcast_grp")
    bit<16> mcast_grp;          // written in ingress: a multicast group, 0 is none
    @alias("intrinsic_metadata.egress_rid")
    bit<16> egress_rid;         // read in egress: which replica this is

    bit<1>  checksum_error;     // 1 when a verify_checksum did not agree
    error   parser_error;       // how the parser ended; an error does not drop the packet
    @alias("intrinsic_metadata.priority")
    bit<3>  priority;           // egress queue
}

// ---------------------------------------------------------------- state kept for packets

enum CounterType {
    packets,
    bytes,
    packets_and_bytes
}

enum MeterType {
    packets,
    bytes
}

// An array of counters. An index outside it counts nothing.
#if V1MODEL_VERSION >= 20200408
extern counter<I> {
    counter(bit<32> size, CounterType type);
    void count(in I index);
}
#else
extern counter {
    counter(bit<32> size, CounterType type);
    void count(in bit<32> index);
}
#endif

// One counter an entry of the table whose `counters` property names it; it
// counts at every hit, whether count() is called or not.
extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

#define V1MODEL_METER_COLOR_GREEN  0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED    2

// An array of two-rate three-colour meters (RFC 2698). T is bit<W>, W >= 2.
#if V1MODEL_VERSION >= 20200408
extern meter<I> {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in I index, out T result);
}
#else
extern meter {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in bit<32> index, out T result);
}
#endif

// One meter an entry of the table whose `meters` property names it.
extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

// An array of values that outlive the packet. A read outside it leaves the
// result unspecified, a write outside it does nothing.
#if V1MODEL_VERSION >= 20200408
extern register<T, I> {
    register(bit<32> size);
    @noSideEffects
    void read(out T result, in I index);
    void write(in I index, in T value);
}
#else
extern register<T> {
    register(bit<32> size);
    @noSideEffects
    void read(out T result, in bit<32> index);
    void write(in bit<32> index, in T value);
}
#endif

// ---------------------------------------------------------------- hashes, numbers, messages

enum HashAlgorithm {
    crc32,
    crc32_custom,
    crc16,
    crc16_custom,
    random,
    identity,
    csum16,     // the Internet checksum, RFC 1071
    xor16
}

// `implementation` of a table whose entries share actions by member or group.
extern action_profile {
    action_profile(bit<32> size);
}
extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

// result = base + hash(data) mod max, or base if max is 0.
@pure
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

// A number in lo..hi, both included.
extern void random<T>(out T result, in T lo, in T hi);

// A message to the control plane; a named struct names it there.
extern void digest<T>(in bit<32> receiver, in T data);

// `{}` in the message stands for the next field of data.
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

// Both tell what the author believes of every packet. A target may stop at an
// assertion that does not hold; an assumption narrows what a verifier explores.
extern void assert(in bool check);
extern void assume(in bool check);

// ---------------------------------------------------------------- where the packet goes

// egress_spec = 511 and mcast_grp = 0: the packet is dropped at the end of the
// control, unless later code sends it elsewhere. Strait counts the drop under
// the name of the action that stands around the call.
@pure
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

@deprecated("Please use mark_to_drop(standard_metadata) instead.")
extern void mark_to_drop();

// Keep the first `length` bytes of the deparsed packet.
extern void truncate(in bit<32> length);

enum CloneType {
    I2E,    // what entered ingress, to egress
    E2E     // what left egress, to egress
}

// Copies, and further rounds. `index` selects the metadata fields that carry
// @field_list(index) and keep their value; the older forms name them in `data`.
extern void clone(in CloneType type, in bit<32> session);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
@deprecated("Please use 'clone_preserving_field_list' instead")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);

extern void resubmit_preserving_field_list(bit<8> index);
@deprecated("Please use 'resubmit_preserving_field_list' instead")
extern void resubmit<T>(in T data);

extern void recirculate_preserving_field_list(bit<8> index);
@deprecated("Please use 'recirculate_preserving_field_list' instead")
extern void recirculate<T>(in T data);

// ---------------------------------------------------------------- checksums
//
// data is a list of bit<>/int<>/varbit<> values; the payload is everything the
// parser did not take. A false condition verifies, or changes, nothing. Where a
// program verifies and updates the same checksum, Strait derives an incremental
// update (RFC 1624) instead of summing the payload.

extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);

@pure
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);

@noSideEffects
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

@deprecated("Please use verify_checksum/update_checksum instead.")
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

// ---------------------------------------------------------------- the blocks of a program

parser Parser<H, M>(packet_in b,
                    out H parsedHdr,
                    inout M meta,
                    inout standard_metadata_t standard_metadata);

// Only verify_checksum* calls.
control VerifyChecksum<H, M>(inout H hdr,
                             inout M meta);

@pipeline
control Ingress<H, M>(inout H hdr,
                      inout M meta,
                      inout standard_metadata_t standard_metadata);

@pipeline
control Egress<H, M>(inout H hdr,
                     inout M meta,
                     inout standard_metadata_t standard_metadata);

// Only update_checksum* calls.
control ComputeChecksum<H, M>(inout H hdr,
                              inout M meta);

// Only packet_out.emit calls.
@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(Parser<H, M> p,
                       VerifyChecksum<H, M> vr,
                       Ingress<H, M> ig,
                       Egress<H, M> eg,
                       ComputeChecksum<H, M> ck,
                       Deparser<H> dep);

#endif
