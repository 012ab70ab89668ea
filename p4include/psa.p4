// The Portable Switch Architecture, version 1.1, as Strait understands it. Widths are those of p4c's software targets, so that programs
// written for them are taken as they are; <bmv2/psa.p4> and <dpdk/psa.p4> are this file (the latter with DPDK's extra methods).
// What the architecture means stands in the PSA specification (p4lang/p4-spec).

#ifndef _PSA_P4_
#define _PSA_P4_

#include <core.p4>

// ---------------------------------------------------------------- numbers
//
// Each kind of number is a type of its own, in the program and, of a whole number of bytes, in headers for the CPU.

typedef bit<32> PortIdUint_t;
@p4runtime_translation("p4.org/psa/v1/PortId_t", 32)
type PortIdUint_t PortId_t;
typedef bit<32> PortIdInHeaderUint_t;
@p4runtime_translation("p4.org/psa/v1/PortIdInHeader_t", 32)
type PortIdInHeaderUint_t PortIdInHeader_t;
PortId_t psa_PortId_header_to_int(in PortIdInHeader_t x) { return (PortId_t)(PortIdUint_t)(PortIdInHeaderUint_t)x; }
PortIdInHeader_t psa_PortId_int_to_header(in PortId_t x) { return (PortIdInHeader_t)(PortIdInHeaderUint_t)(PortIdUint_t)x; }

typedef bit<32> MulticastGroupUint_t;
@p4runtime_translation("p4.org/psa/v1/MulticastGroup_t", 32)
type MulticastGroupUint_t MulticastGroup_t;
typedef bit<32> MulticastGroupInHeaderUint_t;
@p4runtime_translation("p4.org/psa/v1/MulticastGroupInHeader_t", 32)
type MulticastGroupInHeaderUint_t MulticastGroupInHeader_t;
MulticastGroup_t psa_MulticastGroup_header_to_int(in MulticastGroupInHeader_t x) { return (MulticastGroup_t)(MulticastGroupUint_t)(MulticastGroupInHeaderUint_t)x; }
MulticastGroupInHeader_t psa_MulticastGroup_int_to_header(in MulticastGroup_t x) { return (MulticastGroupInHeader_t)(MulticastGroupInHeaderUint_t)(MulticastGroupUint_t)x; }

typedef bit<16> CloneSessionIdUint_t;
@p4runtime_translation("p4.org/psa/v1/CloneSessionId_t", 16)
type CloneSessionIdUint_t CloneSessionId_t;
typedef bit<16> CloneSessionIdInHeaderUint_t;
@p4runtime_translation("p4.org/psa/v1/CloneSessionIdInHeader_t", 16)
type CloneSessionIdInHeaderUint_t CloneSessionIdInHeader_t;
CloneSessionId_t psa_CloneSessionId_header_to_int(in CloneSessionIdInHeader_t x) { return (CloneSessionId_t)(CloneSessionIdUint_t)(CloneSessionIdInHeaderUint_t)x; }
CloneSessionIdInHeader_t psa_CloneSessionId_int_to_header(in CloneSessionId_t x) { return (CloneSessionIdInHeader_t)(CloneSessionIdInHeaderUint_t)(CloneSessionIdUint_t)x; }

typedef bit<8> ClassOfServiceUint_t;
@p4runtime_translation("p4.org/psa/v1/ClassOfService_t", 8)
type ClassOfServiceUint_t ClassOfService_t;
typedef bit<8> ClassOfServiceInHeaderUint_t;
@p4runtime_translation("p4.org/psa/v1/ClassOfServiceInHeader_t", 8)
type ClassOfServiceInHeaderUint_t ClassOfServiceInHeader_t;
ClassOfService_t psa_ClassOfService_header_to_int(in ClassOfServiceInHeader_t x) { return (ClassOfService_t)(ClassOfServiceUint_t)(ClassOfServiceInHeaderUint_t)x; }
ClassOfServiceInHeader_t psa_ClassOfService_int_to_header(in ClassOfService_t x) { return (ClassOfServiceInHeader_t)(ClassOfServiceInHeaderUint_t)(ClassOfServiceUint_t)x; }

typedef bit<16> PacketLengthUint_t;
@p4runtime_translation("p4.org/psa/v1/PacketLength_t", 16)
type PacketLengthUint_t PacketLength_t;
typedef bit<16> PacketLengthInHeaderUint_t;
@p4runtime_translation("p4.org/psa/v1/PacketLengthInHeader_t", 16)
type PacketLengthInHeaderUint_t PacketLengthInHeader_t;
PacketLength_t psa_PacketLength_header_to_int(in PacketLengthInHeader_t x) { return (PacketLength_t)(PacketLengthUint_t)(PacketLengthInHeaderUint_t)x; }
PacketLengthInHeader_t psa_PacketLength_int_to_header(in PacketLength_t x) { return (PacketLengthInHeader_t)(PacketLengthInHeaderUint_t)(PacketLengthUint_t)x; }

typedef bit<16> EgressInstanceUint_t;
@p4runtime_translation("p4.org/psa/v1/EgressInstance_t", 16)
type EgressInstanceUint_t EgressInstance_t;
typedef bit<16> EgressInstanceInHeaderUint_t;
@p4runtime_translation("p4.org/psa/v1/EgressInstanceInHeader_t", 16)
type EgressInstanceInHeaderUint_t EgressInstanceInHeader_t;
EgressInstance_t psa_EgressInstance_header_to_int(in EgressInstanceInHeader_t x) { return (EgressInstance_t)(EgressInstanceUint_t)(EgressInstanceInHeaderUint_t)x; }
EgressInstanceInHeader_t psa_EgressInstance_int_to_header(in EgressInstance_t x) { return (EgressInstanceInHeader_t)(EgressInstanceInHeaderUint_t)(EgressInstanceUint_t)x; }

typedef bit<64> TimestampUint_t;
@p4runtime_translation("p4.org/psa/v1/Timestamp_t", 64)
type TimestampUint_t Timestamp_t;
typedef bit<64> TimestampInHeaderUint_t;
@p4runtime_translation("p4.org/psa/v1/TimestampInHeader_t", 64)
type TimestampInHeaderUint_t TimestampInHeader_t;
Timestamp_t psa_Timestamp_header_to_int(in TimestampInHeader_t x) { return (Timestamp_t)(TimestampUint_t)(TimestampInHeaderUint_t)x; }
TimestampInHeader_t psa_Timestamp_int_to_header(in Timestamp_t x) { return (TimestampInHeader_t)(TimestampInHeaderUint_t)(TimestampUint_t)x; }
typedef error ParserError_t;

const PortId_t PSA_PORT_RECIRCULATE = (PortId_t)0xfffffffa;
const PortId_t PSA_PORT_CPU = (PortId_t)0xfffffffd;
const CloneSessionId_t PSA_CLONE_SESSION_TO_CPU = (CloneSessionId_t)0;

// ---------------------------------------------------------------- metadata

enum PSA_IdleTimeout_t { NO_TIMEOUT, NOTIFY_CONTROL }

// How the packet came to where it is.
enum PSA_PacketPath_t { NORMAL, NORMAL_UNICAST, NORMAL_MULTICAST, CLONE_I2E, CLONE_E2E, RESUBMIT, RECIRCULATE }

struct psa_ingress_parser_input_metadata_t {
    PortId_t         ingress_port;
    PSA_PacketPath_t packet_path;
}

struct psa_egress_parser_input_metadata_t {
    PortId_t         egress_port;
    PSA_PacketPath_t packet_path;
}

struct psa_ingress_input_metadata_t {
    PortId_t         ingress_port;
    PSA_PacketPath_t packet_path;
    Timestamp_t      ingress_timestamp;
    ParserError_t    parser_error;
}

// When ingress begins: class_of_service 0, clone false, drop true, resubmit false, multicast_group 0.
struct psa_ingress_output_metadata_t {
    ClassOfService_t class_of_service;
    bool             clone;
    CloneSessionId_t clone_session_id;
    bool             drop;
    bool             resubmit;
    MulticastGroup_t multicast_group;
    PortId_t         egress_port;
}

struct psa_egress_input_metadata_t {
    ClassOfService_t class_of_service;
    PortId_t         egress_port;
    PSA_PacketPath_t packet_path;
    EgressInstance_t instance;
    Timestamp_t      egress_timestamp;
    ParserError_t    parser_error;
}

struct psa_egress_deparser_input_metadata_t {
    PortId_t egress_port;
}

// When egress begins: clone false, drop false.
struct psa_egress_output_metadata_t {
    bool             clone;
    CloneSessionId_t clone_session_id;
    bool             drop;
}

// For deparsers: which metadata will be used.
@pure
extern bool psa_clone_i2e(in psa_ingress_output_metadata_t istd);
@pure
extern bool psa_resubmit(in psa_ingress_output_metadata_t istd);
@pure
extern bool psa_normal(in psa_ingress_output_metadata_t istd);
@pure
extern bool psa_clone_e2e(in psa_egress_output_metadata_t istd);
@pure
extern bool psa_recirculate(in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd);

extern void assert(in bool check);
extern void assume(in bool check);

match_kind { range, selector, optional }

// ---------------------------------------------------------------- where the packet goes

@noWarn("unused")
action send_to_port(inout psa_ingress_output_metadata_t meta, in PortId_t egress_port) {
    meta.drop = false;
    meta.multicast_group = (MulticastGroup_t)0;
    meta.egress_port = egress_port;
}

@noWarn("unused")
action multicast(inout psa_ingress_output_metadata_t meta, in MulticastGroup_t multicast_group) {
    meta.drop = false;
    meta.multicast_group = multicast_group;
}

@noWarn("unused")
action ingress_drop(inout psa_ingress_output_metadata_t meta) { meta.drop = true; }

@noWarn("unused")
action egress_drop(inout psa_egress_output_metadata_t meta) { meta.drop = true; }

extern PacketReplicationEngine {
    PacketReplicationEngine();
}

extern BufferingQueueingEngine {
    BufferingQueueingEngine();
}

// ---------------------------------------------------------------- hashes and checksums

enum PSA_HashAlgorithm_t {
    IDENTITY,
    CRC32,
    CRC32_CUSTOM,
    CRC16,
    CRC16_CUSTOM,
    ONES_COMPLEMENT16,
    TARGET_DEFAULT
}

// With `base` and `max`: base + hash mod max.
extern Hash<O> {
    Hash(PSA_HashAlgorithm_t algo);
    @pure
    O get_hash<D>(in D data);
    @pure
    O get_hash<T, D>(in T base, in D data, in T max);
}

extern Checksum<W> {
    Checksum(PSA_HashAlgorithm_t hash);
    void clear();
    void update<T>(in T data);
    @noSideEffects
    W get();
}

// The Internet checksum (RFC 1071), incrementally (RFC 1624); data is a whole number of 16-bit words.
extern InternetChecksum {
    InternetChecksum();
    void clear();
    void add<T>(in T data);
    void subtract<T>(in T data);
    @noSideEffects
    bit<16> get();
    @noSideEffects
    bit<16> get_state();
    void set_state(in bit<16> checksum_state);
}

// ---------------------------------------------------------------- state kept for packets

enum PSA_CounterType_t { PACKETS, BYTES, PACKETS_AND_BYTES }

@noWarn("unused")
extern Counter<W, S> {
    Counter(bit<32> n_counters, PSA_CounterType_t type);
#ifdef STRAIT_DPDK
    void count(in S index);
    void count(in S index, in bit<32> pkt_len);
#else
    void count(in S index);
#endif
}

@noWarn("unused")
extern DirectCounter<W> {
    DirectCounter(PSA_CounterType_t type);
#ifdef STRAIT_DPDK
    void count();
    void count(in bit<32> pkt_len);
#else
    void count();
#endif
}

enum PSA_MeterType_t { PACKETS, BYTES }
enum PSA_MeterColor_t { RED, GREEN, YELLOW }

// RFC 2698; without a colour the packet is taken for green.
extern Meter<S> {
    Meter(bit<32> n_meters, PSA_MeterType_t type);
    PSA_MeterColor_t execute(in S index, in PSA_MeterColor_t color);
    PSA_MeterColor_t execute(in S index);
#ifdef STRAIT_DPDK
    PSA_MeterColor_t dpdk_execute(in S index, in PSA_MeterColor_t color, in bit<32> pkt_len);
    PSA_MeterColor_t dpdk_execute(in S index, in bit<32> pkt_len);
#endif
}

extern DirectMeter {
    DirectMeter(PSA_MeterType_t type);
#ifdef STRAIT_DPDK
    PSA_MeterColor_t execute(in PSA_MeterColor_t color);
    PSA_MeterColor_t execute();
    PSA_MeterColor_t dpdk_execute(in PSA_MeterColor_t color, in bit<32> pkt_len);
    PSA_MeterColor_t dpdk_execute(in bit<32> pkt_len);
#else
    PSA_MeterColor_t execute(in PSA_MeterColor_t color);
    PSA_MeterColor_t execute();
#endif
}

extern Register<T, S> {
    Register(bit<32> size);
    Register(bit<32> size, T initial_value);
    @noSideEffects
    T read(in S index);
    void write(in S index, in T value);
}

extern Random<T> {
    Random(T min, T max);
    T read();
}

extern ActionProfile {
    ActionProfile(bit<32> size);
}

extern ActionSelector {
    ActionSelector(PSA_HashAlgorithm_t algo, bit<32> size, bit<32> outputWidth);
}

// Messages to the control plane.
extern Digest<T> {
    Digest();
    void pack(in T data);
}

// ---------------------------------------------------------------- the blocks of a program

parser IngressParser<H, M, RESUBM, RECIRCM>(packet_in buffer,
                                            out H parsed_hdr,
                                            inout M user_meta,
                                            in psa_ingress_parser_input_metadata_t istd,
                                            in RESUBM resubmit_meta,
                                            in RECIRCM recirculate_meta);

control Ingress<H, M>(inout H hdr,
                      inout M user_meta,
                      in psa_ingress_input_metadata_t istd,
                      inout psa_ingress_output_metadata_t ostd);

control IngressDeparser<H, M, CI2EM, RESUBM, NM>(packet_out buffer,
                                                 out CI2EM clone_i2e_meta,
                                                 out RESUBM resubmit_meta,
                                                 out NM normal_meta,
                                                 inout H hdr,
                                                 in M meta,
                                                 in psa_ingress_output_metadata_t istd);

parser EgressParser<H, M, NM, CI2EM, CE2EM>(packet_in buffer,
                                            out H parsed_hdr,
                                            inout M user_meta,
                                            in psa_egress_parser_input_metadata_t istd,
                                            in NM normal_meta,
                                            in CI2EM clone_i2e_meta,
                                            in CE2EM clone_e2e_meta);

control Egress<H, M>(inout H hdr,
                     inout M user_meta,
                     in psa_egress_input_metadata_t istd,
                     inout psa_egress_output_metadata_t ostd);

control EgressDeparser<H, M, CE2EM, RECIRCM>(packet_out buffer,
                                             out CE2EM clone_e2e_meta,
                                             out RECIRCM recirculate_meta,
                                             inout H hdr,
                                             in M meta,
                                             in psa_egress_output_metadata_t istd,
                                             in psa_egress_deparser_input_metadata_t edstd);

package IngressPipeline<IH, IM, NM, CI2EM, RESUBM, RECIRCM>(IngressParser<IH, IM, RESUBM, RECIRCM> ip,
                                                            Ingress<IH, IM> ig,
                                                            IngressDeparser<IH, IM, CI2EM, RESUBM, NM> id);

package EgressPipeline<EH, EM, NM, CI2EM, CE2EM, RECIRCM>(EgressParser<EH, EM, NM, CI2EM, CE2EM> ep,
                                                          Egress<EH, EM> eg,
                                                          EgressDeparser<EH, EM, CE2EM, RECIRCM> ed);

package PSA_Switch<IH, IM, EH, EM, NM, CI2EM, CE2EM, RESUBM, RECIRCM>(
    IngressPipeline<IH, IM, NM, CI2EM, RESUBM, RECIRCM> ingress,
    PacketReplicationEngine pre,
    EgressPipeline<EH, EM, NM, CI2EM, CE2EM, RECIRCM> egress,
    BufferingQueueingEngine bqe);

#endif
