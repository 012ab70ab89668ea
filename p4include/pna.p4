// The Portable NIC Architecture, version 0.7, as Strait understands it. Widths are those of p4c's software targets, so that programs
// written for them are taken as they are; <bmv2/pna.p4> and <dpdk/pna.p4> are this file (the latter with DPDK's extra methods).
// What the architecture means stands in the PNA specification (p4lang/pna).

#ifndef _PNA_P4_
#define _PNA_P4_

#include <core.p4>

// ---------------------------------------------------------------- numbers
//
// Each kind of number is a type of its own, in the program and, of a whole number of bytes, in headers for the CPU.

typedef bit<32> PortIdUint_t;
@p4runtime_translation("p4.org/pna/v1/PortId_t", 32)
type PortIdUint_t PortId_t;
typedef bit<32> PortIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/PortIdInHeader_t", 32)
type PortIdInHeaderUint_t PortIdInHeader_t;
PortId_t pna_PortId_header_to_int(in PortIdInHeader_t x) { return (PortId_t)(PortIdUint_t)(PortIdInHeaderUint_t)x; }
PortIdInHeader_t pna_PortId_int_to_header(in PortId_t x) { return (PortIdInHeader_t)(PortIdInHeaderUint_t)(PortIdUint_t)x; }

typedef bit<32> InterfaceIdUint_t;
@p4runtime_translation("p4.org/pna/v1/InterfaceId_t", 32)
type InterfaceIdUint_t InterfaceId_t;
typedef bit<32> InterfaceIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/InterfaceIdInHeader_t", 32)
type InterfaceIdInHeaderUint_t InterfaceIdInHeader_t;
InterfaceId_t pna_InterfaceId_header_to_int(in InterfaceIdInHeader_t x) { return (InterfaceId_t)(InterfaceIdUint_t)(InterfaceIdInHeaderUint_t)x; }
InterfaceIdInHeader_t pna_InterfaceId_int_to_header(in InterfaceId_t x) { return (InterfaceIdInHeader_t)(InterfaceIdInHeaderUint_t)(InterfaceIdUint_t)x; }

typedef bit<32> MulticastGroupUint_t;
@p4runtime_translation("p4.org/pna/v1/MulticastGroup_t", 32)
type MulticastGroupUint_t MulticastGroup_t;
typedef bit<32> MulticastGroupInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/MulticastGroupInHeader_t", 32)
type MulticastGroupInHeaderUint_t MulticastGroupInHeader_t;
MulticastGroup_t pna_MulticastGroup_header_to_int(in MulticastGroupInHeader_t x) { return (MulticastGroup_t)(MulticastGroupUint_t)(MulticastGroupInHeaderUint_t)x; }
MulticastGroupInHeader_t pna_MulticastGroup_int_to_header(in MulticastGroup_t x) { return (MulticastGroupInHeader_t)(MulticastGroupInHeaderUint_t)(MulticastGroupUint_t)x; }

typedef bit<16> MirrorSessionIdUint_t;
@p4runtime_translation("p4.org/pna/v1/MirrorSessionId_t", 16)
type MirrorSessionIdUint_t MirrorSessionId_t;
typedef bit<16> MirrorSessionIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/MirrorSessionIdInHeader_t", 16)
type MirrorSessionIdInHeaderUint_t MirrorSessionIdInHeader_t;
MirrorSessionId_t pna_MirrorSessionId_header_to_int(in MirrorSessionIdInHeader_t x) { return (MirrorSessionId_t)(MirrorSessionIdUint_t)(MirrorSessionIdInHeaderUint_t)x; }
MirrorSessionIdInHeader_t pna_MirrorSessionId_int_to_header(in MirrorSessionId_t x) { return (MirrorSessionIdInHeader_t)(MirrorSessionIdInHeaderUint_t)(MirrorSessionIdUint_t)x; }

typedef bit<8> MirrorSlotIdUint_t;
@p4runtime_translation("p4.org/pna/v1/MirrorSlotId_t", 8)
type MirrorSlotIdUint_t MirrorSlotId_t;
typedef bit<8> MirrorSlotIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/MirrorSlotIdInHeader_t", 8)
type MirrorSlotIdInHeaderUint_t MirrorSlotIdInHeader_t;

typedef bit<8> ClassOfServiceUint_t;
@p4runtime_translation("p4.org/pna/v1/ClassOfService_t", 8)
type ClassOfServiceUint_t ClassOfService_t;
typedef bit<8> ClassOfServiceInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/ClassOfServiceInHeader_t", 8)
type ClassOfServiceInHeaderUint_t ClassOfServiceInHeader_t;
ClassOfService_t pna_ClassOfService_header_to_int(in ClassOfServiceInHeader_t x) { return (ClassOfService_t)(ClassOfServiceUint_t)(ClassOfServiceInHeaderUint_t)x; }
ClassOfServiceInHeader_t pna_ClassOfService_int_to_header(in ClassOfService_t x) { return (ClassOfServiceInHeader_t)(ClassOfServiceInHeaderUint_t)(ClassOfServiceUint_t)x; }

typedef bit<16> PacketLengthUint_t;
@p4runtime_translation("p4.org/pna/v1/PacketLength_t", 16)
type PacketLengthUint_t PacketLength_t;
typedef bit<16> PacketLengthInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/PacketLengthInHeader_t", 16)
type PacketLengthInHeaderUint_t PacketLengthInHeader_t;
PacketLength_t pna_PacketLength_header_to_int(in PacketLengthInHeader_t x) { return (PacketLength_t)(PacketLengthUint_t)(PacketLengthInHeaderUint_t)x; }
PacketLengthInHeader_t pna_PacketLength_int_to_header(in PacketLength_t x) { return (PacketLengthInHeader_t)(PacketLengthInHeaderUint_t)(PacketLengthUint_t)x; }

typedef bit<16> MulticastInstanceUint_t;
@p4runtime_translation("p4.org/pna/v1/MulticastInstance_t", 16)
type MulticastInstanceUint_t MulticastInstance_t;
typedef bit<16> MulticastInstanceInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/MulticastInstanceInHeader_t", 16)
type MulticastInstanceInHeaderUint_t MulticastInstanceInHeader_t;
MulticastInstance_t pna_MulticastInstance_header_to_int(in MulticastInstanceInHeader_t x) { return (MulticastInstance_t)(MulticastInstanceUint_t)(MulticastInstanceInHeaderUint_t)x; }
MulticastInstanceInHeader_t pna_MulticastInstance_int_to_header(in MulticastInstance_t x) { return (MulticastInstanceInHeader_t)(MulticastInstanceInHeaderUint_t)(MulticastInstanceUint_t)x; }

typedef bit<64> TimestampUint_t;
@p4runtime_translation("p4.org/pna/v1/Timestamp_t", 64)
type TimestampUint_t Timestamp_t;
typedef bit<64> TimestampInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/TimestampInHeader_t", 64)
type TimestampInHeaderUint_t TimestampInHeader_t;
Timestamp_t pna_Timestamp_header_to_int(in TimestampInHeader_t x) { return (Timestamp_t)(TimestampUint_t)(TimestampInHeaderUint_t)x; }
TimestampInHeader_t pna_Timestamp_int_to_header(in Timestamp_t x) { return (TimestampInHeader_t)(TimestampInHeaderUint_t)(TimestampUint_t)x; }

typedef bit<32> FlowIdUint_t;
@p4runtime_translation("p4.org/pna/v1/FlowId_t", 32)
type FlowIdUint_t FlowId_t;
typedef bit<32> FlowIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/FlowIdInHeader_t", 32)
type FlowIdInHeaderUint_t FlowIdInHeader_t;
FlowId_t pna_FlowId_header_to_int(in FlowIdInHeader_t x) { return (FlowId_t)(FlowIdUint_t)(FlowIdInHeaderUint_t)x; }
FlowIdInHeader_t pna_FlowId_int_to_header(in FlowId_t x) { return (FlowIdInHeader_t)(FlowIdInHeaderUint_t)(FlowIdUint_t)x; }

typedef bit<8> ExpireTimeProfileIdUint_t;
@p4runtime_translation("p4.org/pna/v1/ExpireTimeProfileId_t", 8)
type ExpireTimeProfileIdUint_t ExpireTimeProfileId_t;
typedef bit<8> ExpireTimeProfileIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/ExpireTimeProfileIdInHeader_t", 8)
type ExpireTimeProfileIdInHeaderUint_t ExpireTimeProfileIdInHeader_t;
ExpireTimeProfileId_t pna_ExpireTimeProfileId_header_to_int(in ExpireTimeProfileIdInHeader_t x) { return (ExpireTimeProfileId_t)(ExpireTimeProfileIdUint_t)(ExpireTimeProfileIdInHeaderUint_t)x; }
ExpireTimeProfileIdInHeader_t pna_ExpireTimeProfileId_int_to_header(in ExpireTimeProfileId_t x) { return (ExpireTimeProfileIdInHeader_t)(ExpireTimeProfileIdInHeaderUint_t)(ExpireTimeProfileIdUint_t)x; }

typedef bit<3> PassNumberUint_t;
@p4runtime_translation("p4.org/pna/v1/PassNumber_t", 8)
type PassNumberUint_t PassNumber_t;
typedef bit<8> PassNumberInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/PassNumberInHeader_t", 8)
type PassNumberInHeaderUint_t PassNumberInHeader_t;
PassNumber_t pna_PassNumber_header_to_int(in PassNumberInHeader_t x) { return (PassNumber_t)(PassNumberUint_t)(PassNumberInHeaderUint_t)x; }
PassNumberInHeader_t pna_PassNumber_int_to_header(in PassNumber_t x) { return (PassNumberInHeader_t)(PassNumberInHeaderUint_t)(PassNumberUint_t)x; }

typedef bit<32> SecurityAssocIdUint_t;
@p4runtime_translation("p4.org/pna/v1/SecurityAssocId_t", 64)
type SecurityAssocIdUint_t SecurityAssocId_t;
typedef bit<32> SecurityAssocIdInHeaderUint_t;
@p4runtime_translation("p4.org/pna/v1/SecurityAssocIdInHeader_t", 64)
type SecurityAssocIdInHeaderUint_t SecurityAssocIdInHeader_t;
typedef error ParserError_t;

const InterfaceId_t PNA_PORT_CPU = (InterfaceId_t)0xfffffffd;
const MirrorSessionId_t PNA_MIRROR_SESSION_TO_CPU = (MirrorSessionId_t)0;

enum PNA_IdleTimeout_t { NO_TIMEOUT, NOTIFY_CONTROL, AUTO_DELETE }

match_kind { range, selector, optional }

// ---------------------------------------------------------------- hashes and checksums

enum PNA_HashAlgorithm_t {
    IDENTITY,
    CRC32,
    CRC32_CUSTOM,
    CRC16,
    CRC16_CUSTOM,
    ONES_COMPLEMENT16,
    TOEPLITZ,
    TARGET_DEFAULT
}

// With `base` and `max`: base + hash mod max.
extern Hash<O> {
    Hash(PNA_HashAlgorithm_t algo);
    @pure
    O get_hash<D>(in D data);
    @pure
    O get_hash<T, D>(in T base, in D data, in T max);
}

extern Checksum<W> {
    Checksum(PNA_HashAlgorithm_t hash);
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

enum PNA_CounterType_t { PACKETS, BYTES, PACKETS_AND_BYTES }

@noWarn("unused")
extern Counter<W, S> {
    Counter(bit<32> n_counters, PNA_CounterType_t type);
#ifdef STRAIT_DPDK
    void count(in S index);
    void count(in S index, in bit<32> pkt_len);
#else
    void count(in S index, @optional in bit<32> increment);
#endif
}

@noWarn("unused")
extern DirectCounter<W> {
    DirectCounter(PNA_CounterType_t type);
#ifdef STRAIT_DPDK
    void count();
    void count(in bit<32> pkt_len);
#else
    void count(@optional in bit<32> increment);
#endif
}

enum PNA_MeterType_t { PACKETS, BYTES }
enum PNA_MeterColor_t { RED, GREEN, YELLOW }

// RFC 2698; without a colour the packet is taken for green.
extern Meter<S> {
    Meter(bit<32> n_meters, PNA_MeterType_t type);
    PNA_MeterColor_t execute(in S index, in PNA_MeterColor_t color);
    PNA_MeterColor_t execute(in S index);
#ifdef STRAIT_DPDK
    PNA_MeterColor_t dpdk_execute(in S index, in PNA_MeterColor_t color, in bit<32> pkt_len);
    PNA_MeterColor_t dpdk_execute(in S index, in bit<32> pkt_len);
#endif
}

extern DirectMeter {
    DirectMeter(PNA_MeterType_t type);
#ifdef STRAIT_DPDK
    PNA_MeterColor_t execute(in PNA_MeterColor_t color);
    PNA_MeterColor_t execute();
    PNA_MeterColor_t dpdk_execute(in PNA_MeterColor_t color, in bit<32> pkt_len);
    PNA_MeterColor_t dpdk_execute(in bit<32> pkt_len);
#else
    PNA_MeterColor_t execute(in PNA_MeterColor_t color, @optional in bit<32> pkt_len);
    PNA_MeterColor_t execute(@optional in bit<32> pkt_len);
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
    ActionSelector(PNA_HashAlgorithm_t algo, bit<32> size, bit<32> outputWidth);
}

// Messages to the control plane.
extern Digest<T> {
    Digest();
    void pack(in T data);
}

#ifdef STRAIT_DPDK
enum ipsec_status { IPSEC_SUCCESS, IPSEC_ERROR }

extern ipsec_accelerator {
    ipsec_accelerator();
    void set_sa_index<T>(in T sa_index);
    void set_ip_header_offset<T>(in T offset);
    void enable();
    void disable();
    bool from_ipsec(out ipsec_status status);
}
#endif

// ---------------------------------------------------------------- metadata

enum PNA_Direction_t { NET_TO_HOST, HOST_TO_NET }

enum PNA_PacketPath_t {
    FROM_NET_PORT,
    FROM_NET_LOOPEDBACK,
    FROM_NET_RECIRCULATED,
    FROM_HOST,
    FROM_HOST_LOOPEDBACK,
    FROM_HOST_RECIRCULATED
}

struct pna_pre_input_metadata_t {
    PortId_t        input_port;
    ParserError_t   parser_error;
    PNA_Direction_t direction;
    PassNumber_t    pass;
    bool            loopedback;
}

struct pna_pre_output_metadata_t {
    bool              decrypt;
    SecurityAssocId_t said;
    bit<16>           decrypt_start_offset;
}

struct pna_main_parser_input_metadata_t {
    PNA_Direction_t direction;
    PassNumber_t    pass;
    bool            loopedback;
    PortId_t        input_port;
}

struct pna_main_input_metadata_t {
    PNA_Direction_t  direction;
    PassNumber_t     pass;
    bool             loopedback;
    Timestamp_t      timestamp;
    ParserError_t    parser_error;
    ClassOfService_t class_of_service;
    PortId_t         input_port;
}

struct pna_main_output_metadata_t {
    ClassOfService_t class_of_service;
}

// ---------------------------------------------------------------- where the packet goes

extern void drop_packet();
extern void send_to_port(PortId_t dest_port);
extern void mirror_packet(MirrorSlotId_t mirror_slot_id, MirrorSessionId_t mirror_session_id);
extern void recirculate();

// In the default action of a table with `add_on_miss = true`: adds an entry for the key that missed. False if the table is full.
extern bool add_entry<T>(string action_name, in T action_params, in ExpireTimeProfileId_t expire_time_profile_id);
extern FlowId_t allocate_flow_id();

// In an action that ran for a hit: the entry's time to live, and its beginning anew.
extern void set_entry_expire_time(in ExpireTimeProfileId_t expire_time_profile_id);
extern void restart_expire_timer();

@pure
extern T SelectByDirection<T>(in PNA_Direction_t direction, in T n2h_value, in T h2n_value);

// ---------------------------------------------------------------- the blocks of a program

control PreControlT<PH, PM>(in PH pre_hdr,
                            inout PM pre_user_meta,
                            in pna_pre_input_metadata_t istd,
                            inout pna_pre_output_metadata_t ostd);

parser MainParserT<MH, MM>(packet_in pkt,
                           out MH main_hdr,
                           inout MM main_user_meta,
                           in pna_main_parser_input_metadata_t istd);

control MainControlT<MH, MM>(inout MH main_hdr,
                             inout MM main_user_meta,
                             in pna_main_input_metadata_t istd,
                             inout pna_main_output_metadata_t ostd);

control MainDeparserT<MH, MM>(packet_out pkt,
                              in MH main_hdr,
                              in MM main_user_meta,
                              in pna_main_output_metadata_t ostd);

package PNA_NIC<PH, PM, MH, MM>(MainParserT<MH, MM> main_parser,
                                PreControlT<PH, PM> pre_control,
                                MainControlT<MH, MM> main_control,
                                MainDeparserT<MH, MM> main_deparser);

#endif
