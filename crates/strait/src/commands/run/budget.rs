//! The memory that a pushed program may take. It is computed from the sizes that the program declares, and asked for before anything is allocated.

use p4runtime::server::CompileError;

use crate::cli::RunTarget;

/// How much memory programs may take.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// The limit in bytes; without one, half of what the machine has available when a program is pushed.
    limit: Option<u64>,
    /// Those that count for themselves: workers, or the processors of the kernel's targets.
    workers: u64,
}

/// The bytes of a cell of a register.
const REGISTER: u64 = 8;
/// The same in the interpreter.
const BITS: u64 = 48;
/// The longest array that the interpreter has whole.
const DENSE: u64 = 1 << 16;
/// The bytes of a counter.
const COUNTER: u64 = 16;
/// The bytes of a meter.
const METER: u64 = 128;
/// The bytes of an entry beside its key.
const ENTRY: u64 = 128;
/// The bytes of a field of a key.
const FIELD: u64 = 16;

impl Budget {
    /// A limit in MiB, and the workers that count.
    pub fn new(mebibytes: Option<u64>, workers: usize) -> Budget {
        Budget { limit: mebibytes.map(|count| count.saturating_mul(1 << 20)), workers: workers as u64 }
    }

    /// Asks for the memory of a program.
    pub fn ask(self, program: &ir::Verified, target: RunTarget) -> Result<(), CompileError> {
        let needs = self.needs(program, target);
        let limit = match self.limit {
            Some(limit) => limit,
            None => available().map_or(u64::MAX, |bytes| bytes / 2),
        };
        if needs <= limit {
            return Ok(());
        }
        let mebi = |bytes: u64| bytes.div_ceil(1 << 20);
        Err(CompileError::TooLarge(format!(
            "the program needs {} MiB for its registers, counters, meters and tables, and may take {} MiB (--program-memory)",
            mebi(needs),
            limit >> 20
        )))
    }

    /// What a program takes when it is loaded, in bytes.
    fn needs(self, program: &ir::Verified, target: RunTarget) -> u64 {
        // Large arrays of the interpreter have the cells that are used, and tables that only controllers fill have the entries that there are; tables in
        // the kernel and those that packets fill have all their room from the beginning.
        let in_kernel = matches!(target, RunTarget::Tc | RunTarget::Xdp);
        let (most, register) = match target {
            RunTarget::Interp => (DENSE, BITS),
            _ => (u64::MAX, REGISTER),
        };
        let registers = program.registers.iter().map(|r| r.size.min(most).saturating_mul(register));
        let counters = program.counters.iter().map(|c| c.size.min(most).saturating_mul(COUNTER));
        let counters = counters.map(|bytes| bytes.saturating_mul(self.workers.max(1)));
        let meters =
            program.meters.iter().map(|m| m.size.unwrap_or_default().min(most).saturating_mul(METER));
        let whole = |table: &&ir::Table| in_kernel || (table.learns() && target == RunTarget::Native);
        let tables = program.tables.iter().filter(whole);
        let entries = tables.map(|table| table.size.saturating_mul(ENTRY + FIELD * table.keys.len() as u64));
        registers.chain(counters).chain(meters).chain(entries).fold(0, u64::saturating_add)
    }
}

/// The memory that the machine has available, in bytes.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}
