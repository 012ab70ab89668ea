//! Early lookups: a table whose key is known after the parser is looked up for a whole burst at once, between the parser and the controls.
//! The waits for memory of the packets then overlap. When the program applies the table, the row has already been found.
//!
//! This makes programs faster only if a table is larger than the caches. Small tables are looked up when they are applied.

use std::collections::HashSet;

use abi::manifest::Structure;
use ir::cells::Cell;
use ir::effects;
use ir::{Block, ExprKind, HeaderId, HeaderRef, Place, Program, Role, StmtKind, TableId, visit};

use crate::c::{Body, Home, Unit, Units};

use super::Native;
use super::table::write_keys;

/// Smallest size in entries of a table that is looked up early.
const LARGE: u64 = 4096;

/// A table that is looked up early, and the headers that its key reads. The lookup is skipped for packets without them.
#[derive(Clone, Debug)]
pub struct Early {
    pub table: TableId,
    pub headers: Vec<HeaderId>,
}

/// The storage cells that the statements before some point may write.
type Written = HashSet<Cell>;

/// The tables of a program that are looked up early: large tables that ingress applies exactly once, outside of loops, and whose keys
/// nothing writes before.
pub fn tables(
    program: &Program,
    units: &Units,
    structures: &[Option<Structure>],
    applications: &[u32],
) -> Vec<Early> {
    let Some(ingress) = program.control(Role::Ingress) else { return Vec::new() };
    let mut found = Vec::new();
    // The lookups come before PNA's pre control.
    let mut written = Written::default();
    if let Some(pre) = program.control(Role::PreControl) {
        walk(program, &pre.body, &mut written, &mut |_, _| {});
    }
    walk(program, &ingress.body, &mut written, &mut |table, written| {
        let definition = &program.tables[table.index()];
        let structure = structures[table.index()];
        let large = matches!(structure, Some(Structure::Hash | Structure::Flow | Structure::LpmTrie))
            && definition.size >= LARGE;
        if large && applications[table.index()] == 1 {
            found.extend(settled(program, units, table, written));
        }
    });
    found
}

/// Calls `f` for each table that a block applies, with the cells that may have been written before. It does not call `f` for tables that
/// are applied in loops.
fn walk(program: &Program, block: &Block, written: &mut Written, f: &mut dyn FnMut(TableId, &Written)) {
    for stmt in block {
        if let StmtKind::Apply { table, .. } = &stmt.kind {
            f(*table, written);
        }
        match &stmt.kind {
            StmtKind::Loop { body, .. } => walk(program, body, written, &mut |_, _| {}),
            _ => visit::inner_blocks(stmt).into_iter().for_each(|b| walk(program, b, written, f)),
        }
        note(program, stmt, written);
    }
}

/// Adds the cells that a statement and, for a table, its actions may write.
fn note(program: &Program, stmt: &ir::Stmt, written: &mut Written) {
    effects::writes(program, stmt, &mut |cell| written.extend([cell]));
    if let StmtKind::Apply { table, .. } = &stmt.kind {
        for listed in &program.tables[table.index()].actions {
            let action = &program.actions[listed.action.index()];
            written.extend(action.params.iter().map(|p| Cell::Var(p.var)));
            visit::stmts(&action.body, &mut |stmt| note(program, stmt, written));
        }
    }
}

/// The early lookup of a table, or `None` if something in its key may have been written.
fn settled(program: &Program, units: &Units, table: TableId, written: &Written) -> Option<Early> {
    let mut headers = Vec::new();
    let mut settled = true;
    for key in &program.tables[table.index()].keys {
        visit::exprs(&key.expr, &mut |e| match &e.kind {
            ExprKind::Read(Place::Var(v)) => {
                settled &= !written.contains(&Cell::Var(*v)) && units.home(*v) == Home::State;
            }
            ExprKind::Read(Place::Field(HeaderRef::Header(h), field)) => {
                settled &= !written.contains(&Cell::Valid(*h)) && !written.contains(&Cell::Field(*h, *field));
                if !headers.contains(h) {
                    headers.push(*h);
                }
            }
            ExprKind::IsValid(HeaderRef::Header(h)) => settled &= !written.contains(&Cell::Valid(*h)),
            ExprKind::Read(_) | ExprKind::IsValid(_) | ExprKind::NextIndex(_) => settled = false,
            _ => {}
        });
    }
    settled.then_some(Early { table, headers })
}

impl Native<'_> {
    /// Emits `early_lookups(work, count)`: all early lookups of a burst.
    pub(super) fn early_lookups(&mut self) {
        let tables = self.early.clone();
        for early in &tables {
            self.early_key(early);
            self.early_table(early);
        }
        self.c.text.line("");
        self.c.text.line("/* Looks up the tables whose keys are known after the parser. */");
        self.c.text.open("INLINE void early_lookups(UNUSED struct packet *work, UNUSED u32 count)");
        for early in &tables {
            let name = self.c.names.table(early.table);
            self.c.text.line(format!("early_{name}(work, count);"));
        }
        self.c.text.close("");
    }

    /// Emits `key_T(pkt)`: writes the key of table T, or returns 1 if the packet lacks a header of the key.
    fn early_key(&mut self, early: &Early) {
        let name = self.c.names.table(early.table).to_string();
        let index = early.table.index();
        let Some(layout) = self.c.manifest.tables[index].layout.clone() else { return };
        let definition = &self.c.program.tables[index];
        self.c.function(&format!("key_{name}"), Unit::Table(index as u32), |body: &mut Body<'_>| {
            for h in &early.headers {
                let header = body.names.header(*h).to_string();
                body.text.line(format!("if (!s->{header}_valid)"));
                body.text.line("    return 1;");
            }
            body.text.line(format!("u64 *words = t->{name}_key;"));
            write_keys(body, definition, &layout);
        });
    }

    /// Emits `early_T(work, count)`: looks up table T for all packets of a burst that have its key.
    fn early_table(&mut self, early: &Early) {
        let name = self.c.names.table(early.table).to_string();
        let index = early.table.index();
        let Some(layout) = self.c.manifest.tables[index].layout.clone() else { return };
        let bulk = match layout.structure {
            Structure::LpmTrie => "find_lpm_bulk(table, keys, rows, m)".to_string(),
            Structure::Flow => {
                format!("find_flow_bulk(table, keys, rows, m, {})", layout.key_size.div_ceil(8))
            }
            _ => format!("find_exact_bulk(table, keys, rows, m, {})", layout.key_size.div_ceil(8)),
        };
        // The cells that a hit writes are prefetched too, because they are not in the row. With a million sessions, the cache misses on
        // their last hits cost as much time as the lookups.
        let mut cells = Vec::new();
        if layout.counter_offset.is_some() {
            cells.push(format!(
                "(struct count *)work->frame.worker->direct[{index}].cells + rows[i]->counter"
            ));
        }
        if self.c.program.tables[index].notifies_idle {
            cells.push(format!("(u64 *)work->frame.worker->hits[{index}].cells + rows[i]->counter"));
        }
        let t = &mut self.c.text;
        t.line("");
        t.open(format!("static void early_{name}(struct packet *work, u32 count)"));
        t.line(format!("const struct table *table = &work->frame.shared->tables[{index}];"));
        if layout.structure == Structure::Hash {
            t.open("if (is_empty(table))");
            t.open("for (u32 i = 0; i < count; i++)");
            t.line(format!("work[i].scratch.{name}_early = 1;"));
            t.line(format!("work[i].scratch.{name}_row = 0;"));
            t.close("");
            t.line("return;");
            t.close("");
        }
        t.line("const u64 *keys[BURST];");
        t.line("const struct row *rows[BURST];");
        t.line("struct scratch *of[BURST];");
        t.line("u32 m = 0;");
        t.open("for (u32 i = 0; i < count; i++)");
        t.line("struct scratch *t = &work[i].scratch;");
        t.line("of[m] = t;");
        t.line(format!("keys[m] = t->{name}_key;"));
        t.line(format!("t->{name}_early = !key_{name}(&work[i]);"));
        t.line(format!("m += t->{name}_early;"));
        t.close("");
        t.line(format!("{bulk};"));
        t.open("for (u32 i = 0; i < m; i++)");
        t.line(format!("of[i]->{name}_row = rows[i];"));
        for cell in cells {
            t.line("if (rows[i])");
            t.line(format!("    PREFETCH_WRITE({cell});"));
        }
        t.close("");
        t.close("");
    }
}
