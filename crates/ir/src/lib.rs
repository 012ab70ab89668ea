//! The intermediate representation (IR) of P4-16 programs, and the rules for well-formed programs.
//!
//! The front end translates P4 literally into a [`Program`]. [`verify`] checks the program and returns a [`Verified`] one, which also
//! provides the results of the analyses. The [`pass`](mod@pass)es transform a verified program into an equivalent one that runs faster. Every
//! back end takes a `&Verified`, so its signature proves that the program was checked. This page is the specification of the IR; [`Rule`]
//! lists the rules that [`verify`] checks.
//!
//! # Shape
//! A program is *monomorphic, inlined and flat*:
//! * Generics are instantiated. Compile-time values are constants. Enums and errors are numbers.
//! * Functions, sub-controls, sub-parsers and direct action calls are inlined at the call (P4 has no recursion). Only the actions of
//!   tables remain as [`Action`]s.
//! * Parameters have storage of their own. A call copies its arguments in, runs the body, and copies `out` and `inout` parameters back, at
//!   every exit of the body (P4-16 section 6.8).
//! * There are no structs. Each scalar field of a struct is a [`Var`], and each header is a [`Header`] with its own storage and validity. A
//!   header stack is a group of consecutive headers.
//!
//! Names are those of the P4 program: `hdr.ipv4.ttl` is field `ttl` of header `hdr.ipv4`, and a table is called `MyIngress.ipv4_lpm`.
//! Generated code, traces and the control plane therefore use the names that the programmer wrote.
//!
//! # Values
//! Every [`Expr`] has a type [`Ty`]: `bool`, `bit<W>`, `int<W>` or `varbit<W>`. A `varbit` value exists only as a header field, which can be
//! extracted, emitted, copied, compared or summed. Values are [`abi::Bits`]: an `int<W>` is its two's complement, and a `bool` is one bit.
//!
//! Expressions are **pure**: they have no side effects, cannot fail, and do not read the packet. Everything with an effect is a statement
//! that writes a place. `&&`, `||` and `?:` evaluate lazily, but because expressions are pure, no program can observe this. Arithmetic wraps.
//! A shift by the width or more gives zero, or copies of the sign bit for a right shift of an `int<W>`. The operands of a binary operator have
//! equal types, except for shifts. Division and modulo by zero give zero.
//!
//! # Storage
//! When a packet arrives, **every variable and every header field is zero and every header is invalid**, except for the variables that
//! the architecture sets ([`pipeline::Stage::inputs`]). Reads and writes of a field of an invalid header access its storage normally.
//! [`StmtKind::SetValid`] on an invalid header sets its fields to zero and makes it valid; on a valid header it has no effect.
//! [`StmtKind::SetInvalid`] makes a header invalid and sets its fields to zero. The zero of a varbit is the empty one. P4-16 leaves the values of such reads undefined (section 8.25).
//! The IR defines them so that all targets agree, and so that no packet ever sees the data of another one.
//!
//! # Statements
//! Control flow is structured: `If`, `Switch`, `Block` with `Break`, and `Loop` with `Break` and `Continue`. `return` and `exit` become a
//! `Break`: `exit` in a control leaves the outermost block of the control. [`StmtKind::CopyHeader`] copies the validity and all fields.
//! [`StmtKind::CopyStack`] copies all elements and the next index. Other packets cannot access the state of externs while the statements of an
//! [`StmtKind::Atomic`] run. [`StmtKind::Apply`] applies a table: it evaluates the key, looks up the entry, copies the entry's action data to
//! the parameters (which are variables of the action), runs the action, and then writes the two result variables.
//!
//! # Parser
//! Parsing begins in the state `start`. [`StmtKind::Extract`] and [`StmtKind::Advance`] move the cursor, and [`StmtKind::Lookahead`] reads at
//! the cursor. If one of them would pass the end of the packet, it sets `parser_error` to `PacketTooShort` and rejects the packet; the headers
//! and the cursor stay as they were before it. `Verify` with a false condition sets its error and rejects. A `select` without a matching case
//! rejects with `NoMatch`. After a rejection, the [`State::rejected`] of the state runs: it copies out the parameters of the sub-parsers that
//! the rejection leaves. The architecture decides what follows; v1model continues with ingress.
//!
//! The *payload* is what follows the cursor at the end of parsing. The deparser writes the emitted headers in front of it. Extraction sets
//! the header valid and overwrites all its fields. If the number of bits of an advance or a varbit field is not a multiple of 8, the statement
//! rejects with `ParserInvalidArgument`, so the cursor is always at a whole byte.
//!
//! # Effects
//! [`effects`] tells for every statement which [`cells::Cell`]s it reads and writes, and what other effects it has. [`liveness`] tells which
//! cells may be read later. All passes and back ends use these two analyses.
//!
//! # Checksums
//! [`Call::VerifyChecksum`] and [`Call::UpdateChecksum`] are *declarations*. Their meaning is the sum over the listed data, and over the
//! payload if they include it. The front end makes the fields of headers that may be invalid conditional: in an invalid header they add nothing, as in
//! BMv2. The interpreter computes this sum, as v1model requires. A target may instead derive a checksum over the payload
//! from the one that arrived ([`checksum`]). The result is equal for each packet whose declared checksums were correct on arrival.
//!
//! If a declared checksum over the payload was wrong on arrival, such a target sends a checksum with the same error. Let `c` be the
//! checksum on arrival, `r` the correct one on arrival, and `r'` the correct one on departure. The packet leaves with `~(~r' + ~c + r)` in one's
//! complement. The receiver therefore detects the damage, as it would without a translator in between. The words 0000 and ffff are equal
//! in one's complement; a field that must not be 0 gets ffff. If a checksum has several verify statements ([`checksum::Sum::verifies`]),
//! the first one that ran for the packet counts. If none of them ran, the target computes the checksum in full. It also computes every
//! checksum without payload in full. A verify statement counts only if the header of the checksum is valid, because otherwise no
//! checksum arrived. A clone from egress to egress keeps the verified checksums of its packet together with the headers; a clone of the
//! packet as it arrived keeps none. The effect of verify statements on `checksum_error` is the same on all targets.
//!
//! [`Call::AddToSum`] is no declaration: `InternetChecksum` of PSA and PNA is arithmetic in one's complement on all targets. If a checksum is
//! partial because hardware completes it later, a target changes it by what the program's sums say about the pseudo-header
//! ([`partial`](mod@partial)).
//!
//! # Drops
//! Every call of `mark_to_drop` is a [`StmtKind::Drop`] with its own [`DropSite`], so that every dropped packet has a drop reason with a name.
//! It records its site. If the pipeline drops the packet, the last recorded site is the reason. In v1model, the front end also assigns 511
//! to `egress_spec` and 0 to `mcast_grp`; in PNA it withdraws the request to send.
//!
//! # Pipeline
//! [`Program::pipeline`] has the rules of the architecture as data: the stages, what each of them runs, the variables that are written when
//! a packet enters one, and the decisions that drop, copy or send it. [`pipeline`](mod@pipeline) defines the meaning. The following sections
//! describe the pipelines that the front end makes.
//!
//! # v1model
//! A packet passes [`Role::Parser`], [`Role::VerifyChecksum`], [`Role::Ingress`], the traffic manager, [`Role::Egress`],
//! [`Role::ComputeChecksum`] and [`Role::Deparser`]. The traffic manager replicates the packet if `mcast_grp` is not 0. Otherwise it drops the
//! packet if `egress_spec` is 511, without egress, and else sends it to `egress_port = egress_spec`. After egress, the packet is dropped if
//! `egress_spec` is 511. A packet that the parser rejected is processed normally, with `parser_error` set. A wrong verified checksum sets
//! `checksum_error`.
//!
//! A program may call `clone`, `resubmit` and `recirculate` anywhere in ingress or egress. They are requests, which take effect at the
//! end of that half of the pipeline, in the order of BMv2. After ingress: the clone, the digests, the resubmission; the packet is
//! forwarded only if it is not resubmitted. After egress: the clone, the drop, and then recirculation instead of sending. A clone to a
//! session that is not configured has no effect. A clone from ingress is a copy of the packet as it arrived, which is parsed again and sent to
//! egress. A clone from egress has the headers as egress left them. A packet that is processed again has new metadata, except for the
//! variables that it keeps. Its `instance_type` is 1 for a clone from ingress, 2 for a clone from egress, 4 for a recirculated packet, 5 for a
//! replica, and 6 for a resubmitted packet.
//!
//! # PSA
//! A packet passes [`Role::Parser`], [`Role::Ingress`], [`Role::IngressDeparser`], packet replication, [`Role::EgressParser`],
//! [`Role::Egress`] and [`Role::Deparser`]. The egress parser has storage of its own, and parses what the ingress deparser wrote. After ingress
//! the following happens, in this order (PSA section 6.2): a clone of the packet as it arrived; a drop; a resubmission; copies for a multicast
//! group; one packet for the egress port. After egress (section 6.5): a clone of the packet as it would leave; a drop; recirculation, if the
//! port is PSA_PORT_RECIRCULATE; otherwise the packet leaves.
//!
//! # PNA
//! A packet passes [`Role::Parser`], [`Role::PreControl`], [`Role::Ingress`] (the main control) and [`Role::Deparser`], in both directions. A
//! port belongs to the network, unless the host configures that it belongs to the host. After the main control, a copy is made for each
//! mirror slot, as the deparser writes the packet. Then the packet is recirculated, or leaves through the port of the last
//! `send_to_port`. If there was none, or a `drop_packet` ran after it, the packet is dropped.
//!
//! [`Call::AddEntry`] adds an entry for the key that missed, and the next packet hits it. In a table that [ages](Table::ages), such an entry
//! is removed when the time of its profile has passed since it was added, or since [`Call::RestartTimer`] last ran for it. A hit alone does
//! not restart the timer (pna.p4 lets targets decide this). An entry of such a table may have a [`DirectRegister`], which only actions of
//! the table read and write: [`Call::DirectRegisterRead`] gives what the last packet that hit the entry has written.
//!
//! # Action profiles
//! An entry of a table with a profile refers to an action, a member, or a group of members. The member of a group is chosen by the hash
//! of [`Table::selector`]: as many bits of it as the selector declares, modulo the number of members, index the members in the order in which
//! the control plane listed them. With an empty group, the lookup is a hit and no action runs.
//!
//! # The control plane's view
//! [`api`] describes names, keys, sizes and types for the control plane. The front end provides it for every correct program, even if no
//! target can run it.
#![forbid(unsafe_code)]
// A match names what it ignores, so that the compiler shows every place that a new variant concerns.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod api;
pub mod cells;
pub mod checksum;
pub mod compute;
pub mod effects;
pub mod expr;
pub mod liveness;
pub mod manifest;
pub mod partial;
pub mod pass;
pub mod paths;
pub mod pipeline;
pub mod program;
pub mod stmt;
pub mod text;
pub mod unset;
pub mod verify;
pub mod visit;
pub mod visit_mut;

pub use abi::text::Name;
pub use expr::{BinOp, Expr, ExprKind, Place, Ty, UnOp};
pub use pipeline::Pipeline;
pub use program::{
    Action, Arch, CORE_ERRORS, Control, CounterKind, DirectCounter, DirectRegister, DropSite, Field, Header,
    HeaderType, IndexedCounter, KeySet, Loc, MAX_DIRECT_REGISTER, Meter, Param, Parser, Program, Register,
    Role, Select, SelectCase, Source, Stack, StandardMetadata, State, Table, TableAction, TableEntry,
    TableKey, Target, Transition, ValueSet, ValueSetKey, Var, VarKind,
};
pub use program::{
    ActionId, ActionProfile, ChecksumId, CounterId, DirectCounterId, DropSiteId, ErrorId, HeaderId,
    HeaderTypeId, LabelId, MeterId, ProfileId, RegisterId, StackId, StageId, StateId, TableId, ValueSetId,
    VarId,
};
pub use stmt::{Block, Call, Data, HashAlgorithm, HeaderRef, Stmt, StmtKind, add_sums};
pub use verify::{Fault, Rule, Verified, verify};
