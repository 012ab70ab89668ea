//! What a P4-16 program means: the intermediate representation, and the rules that make it well formed.
//!
//! The front end produces a literal [`Program`]; [`verify`] alone turns it into a [`Verified`] one, which carries what is known of
//! its effects; [`pass`](mod@pass)es make an equal program of it that costs less. Every back end takes a `&Verified`, so the proof is in the
//! signature. This page is the specification of the representation; [`Rule`] lists the rules that [`verify`] checks.
//!
//! # Shape
//! A program is *monomorphic, inlined and flat*:
//! * generics are instantiated, compile-time values are constants, enums and errors are numbers;
//! * functions, sub-controls, sub-parsers and direct action calls are inlined where they are called (P4 has no
//!   recursion); only table actions remain as [`Action`]s;
//! * parameters are storage of their own: a call copies its arguments in, runs the body and copies `out` and `inout` parameters
//!   back, at every way out of the body (P4-16 section 6.8);
//! * structs are gone: each scalar leaf is a [`Var`], each header a [`Header`] with its own storage and validity;
//!   header stacks group consecutive headers.
//!
//! Names keep the P4 program's spelling (`hdr.ipv4.ttl` belongs to header `hdr.ipv4`, field `ttl`; a table is
//! `MyIngress.ipv4_lpm`), so that generated code, traces and control planes all say what the programmer wrote.
//!
//! # Values
//! Every [`Expr`] carries its [`Ty`]: `bool`, `bit<W>`, `int<W>` or `varbit<W>` (the last only as a header field that is
//! extracted, emitted, copied, compared or summed). Values are [`abi::Bits`]; an `int<W>` is its two's complement pattern
//! and a `bool` is one bit. Expressions are **pure**: nothing in them has a side effect, fails, or reads the packet.
//! Everything with an effect is a statement that writes a place; `&&`, `||` and `?:` evaluate lazily, which purity makes
//! unobservable. Arithmetic wraps; shifts by the width or more give zero (or copies of the sign); operands of binary
//! operators have equal types except for shifts. Division and modulo by zero give zero.
//!
//! # Storage
//! At the start of a packet **every variable and every header field is zero and every header is invalid**, except the
//! variables that the architecture sets (see [`StandardMetadata`]). Reads and writes of a field of an invalid header are
//! plain storage. [`Stmt::SetValid`] on an invalid header zeroes its fields and makes it valid; on a valid header it does
//! nothing. [`Stmt::SetInvalid`] makes it invalid and zeroes its fields. P4-16 leaves these reads undefined (section
//! 8.25); here they are defined so that all targets agree, and no packet ever sees another's data.
//!
//! # Statements
//! Structured: `If`, `Switch`, `Block` with `Break` out of it (that is what `return` and `exit` became), `Loop` with
//! `Break` and `Continue`. `exit` in a control is a break out of the control's outermost block.
//! [`StmtKind::CopyHeader`] copies the validity and all fields, [`StmtKind::CopyStack`] all elements and the next index.
//! The statements of [`StmtKind::Atomic`] are not interleaved with those of other packets as far as externs can tell.
//! A table is applied by [`Stmt::Apply`], which evaluates the key, looks the entry up, runs the action (parameters are
//! variables of the action, filled from the entry) and then writes the two result variables.
//!
//! # Parser
//! States run from `start`. [`Stmt::Extract`], [`Stmt::Lookahead`] and [`Stmt::Advance`] move or read at the cursor; one that
//! would pass the end of the packet sets `parser_error` to `PacketTooShort` and rejects, leaving headers and cursor as
//! they were before it. `Verify` that fails sets its error and rejects. A `select` with no matching case rejects with
//! `NoMatch`. The state in which parsing was rejected then runs its [`State::rejected`]: the copies out of the sub-parsers that
//! are left. What follows a rejection is the architecture's business: v1model goes on with ingress. The *payload* is
//! what lies behind the cursor when parsing ended; the deparser's emits are put before it.
//! Advances and varbit fields whose number of bits is not a multiple of 8 reject with `ParserInvalidArgument`, so the
//! cursor always stands at a byte.
//! Extraction sets the header valid and overwrites all its fields.
//!
//! # Effects
//! [`effects`] says of every statement which [`cells::Cell`]s it reads and writes, and what else it does; [`liveness`] says which cells
//! may still be read. Whoever asks what may have changed or what is still needed asks these two.
//!
//! # Checksums
//! [`Call::VerifyChecksum`] and [`Call::UpdateChecksum`] are *declarations*: their full meaning is the sum over the listed data
//! (and the payload). The interpreter computes it, as v1model says. A target may derive a sum over the payload from the one
//! that arrived ([`checksum`]), which gives the same result for each packet whose declared sums were right on arrival.
//!
//! A packet whose declared sum over the payload was wrong on arrival leaves such a target with a sum that is wrong by as much: with
//! `c` on arrival where `r` is right, and `r'` the right one to leave with, it leaves with `~(~r' + ~c + r)` in one's complement.
//! So the receiver sees the damage, as it would without a translator in between. Of several verified sums of the same place
//! ([`checksum::Update::sources`]) the first decides whose verification ran. The words 0000 and ffff are one number there, and a
//! field that is never 0 has ffff. An update is computed in full where none of its sources was verified, and so is every sum without
//! payload. A verification counts only if the header of its field is valid: without it, no checksum arrived.
//! A clone from egress to egress keeps the verifications of its packet, with its headers; a clone of the packet as it arrived has none.
//! What a program does about `checksum_error` is the same everywhere.
//!
//! # Drops
//! Every `mark_to_drop` call site is a [`Stmt::Drop`] with its own [`DropSite`], so that a dropped packet always has a
//! named reason. In v1model `Drop` sets `egress_spec` to 511 and `mcast_grp` to 0, and remembers its site; the last site
//! that ran is the reason if the packet ends up dropped.
//!
//! # v1model
//! Roles, in the order of the pipeline: [`Role::Parser`], [`Role::VerifyChecksum`], [`Role::Ingress`], (traffic manager),
//! [`Role::Egress`], [`Role::ComputeChecksum`], [`Role::Deparser`]. After ingress: `mcast_grp != 0` replicates, else
//! `egress_spec == 511` drops (egress does not run), else the packet goes to `egress_port = egress_spec`. After egress:
//! `egress_spec == 511` drops. A packet that ends in a parser rejection is processed all the same, with `parser_error`
//! set. A wrong verified checksum sets `checksum_error`.
//!
//! Copies and further rounds ([`Call::Clone`], [`Call::Resubmit`], [`Call::Recirculate`]) are asked for anywhere in a half of the
//! pipeline and happen at its end, in BMv2's order: after ingress clone, digests, resubmission (the packet is forwarded only
//! without one); after egress clone, then the drop, then recirculation instead of sending. Where the session of a clone is not
//! configured there is no clone. A packet that begins anew has fresh metadata but for the variables that it keeps, and
//! `instance_type` says what it is: 1 a clone from ingress, 2 one from egress, 4 recirculated, 5 a replica, 6 resubmitted. A clone from
//! ingress is the packet as it came, parsed again and sent to egress; one from egress has the headers that egress left.
//!
//! # PSA
//! [`Role::Parser`], [`Role::Ingress`], [`Role::IngressDeparser`], (packet replication), [`Role::EgressParser`], [`Role::Egress`],
//! [`Role::Deparser`]. Egress parses what the ingress deparser wrote, with storage of its own. After ingress, in this order
//! (PSA section 6.2): a clone of what came in; a drop; a resubmission; copies for a multicast group; one packet for the egress
//! port. After egress (section 6.5): a clone of what would leave; a drop; recirculation if the port is
//! PSA_PORT_RECIRCULATE; else it leaves. [`PsaMetadata`] names the variables that are read and written between.
//!
//! # PNA
//! [`Role::Parser`], [`Role::PreControl`], [`Role::Ingress`] (the main control), [`Role::Deparser`], for both directions; a port leads to
//! the network unless the host says that it leads to the host. After the main control: a copy for each mirror slot, as the
//! deparser writes it; then recirculation, else the port of the last [`Call::SendToPort`]; without one, or with a
//! [`Stmt::Drop`] behind it, the packet is dropped. [`Call::AddEntry`] adds an entry for the key that missed, and the next packet finds
//! it; entries of an [ageing](Table::ages) table that were added so are removed when the time of their profile has passed since they
//! were added or [`Call::RestartTimer`] ran for them. A hit alone restarts nothing (pna.p4 leaves that to targets).
//!
//! # Action profiles
//! An entry of a table with a profile leads to an action, a member, or a group of members. A group's member is chosen by as many
//! bits of the hash of [`Table::selector`] as the selector says, modulo the number of members, in the order in which the control plane
//! gave them; with an empty group the table is hit, and nothing runs.
//!
//! # The control plane's view
//! [`api`] stands beside the program: names, keys, sizes and types, of every program that is right.
#![forbid(unsafe_code)]

pub mod api;
pub mod cells;
pub mod checksum;
pub mod compute;
pub mod effects;
pub mod expr;
pub mod liveness;
pub mod manifest;
pub mod pass;
pub mod program;
pub mod stmt;
pub mod text;
pub mod verify;
pub mod visit;
pub mod visit_mut;
pub mod ways;

pub use expr::{BinOp, Expr, ExprKind, Place, Ty, UnOp};
pub use program::{
    Action, Arch, CORE_ERRORS, Control, CounterKind, DirectCounter, DropSite, Field, Header, HeaderType,
    IndexedCounter, KeySet, Loc, Meter, Param, Parser, Passed, PnaMetadata, Program, PsaMetadata, Register,
    Role, Select, SelectCase, Source, Stack, StandardMetadata, State, Table, TableAction, TableEntry,
    TableKey, Target, Transition, ValueSet, ValueSetKey, Var, VarKind,
};
pub use program::{
    ActionId, ActionProfile, CounterId, DirectCounterId, DropSiteId, ErrorId, HeaderId, HeaderTypeId,
    LabelId, MeterId, ProfileId, RegisterId, StackId, StateId, TableId, ValueSetId, VarId,
};
pub use stmt::{Block, Call, ChecksumAlgorithm, Data, HashAlgorithm, HeaderRef, Stmt, StmtKind};
pub use verify::{Fault, Rule, Verified, verify};
