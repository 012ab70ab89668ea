//! Generates table entries for generated packets or routes, as lines of STF. The option is `TABLE ACTION(VALUES, …)`.

use std::collections::HashSet;

use abi::manifest::{Action, Manifest, Table};
use abi::{Bits, MatchKind};
use anyhow::{Context, bail};
use bench::traffic::Values;
use harness::stf;
use interp::{Event, Observer};

/// Generates entries of a table. Each entry gets the next values for the parameters of its action.
pub struct Adding<'m> {
    table: &'m Table,
    action: &'m Action,
    values: Vec<Values>,
    /// The keys that have an entry.
    known: HashSet<Vec<Bits>>,
}

impl<'m> Adding<'m> {
    /// Parses `TABLE ACTION(VALUES, …)`. Lists are in parentheses of their own: `(1,2)`.
    pub fn parse(text: &str, manifest: &'m Manifest) -> anyhow::Result<Adding<'m>> {
        let wrong = || format!("`{text}` is not TABLE ACTION(VALUES, …)");
        let (table, call) = text.trim().split_once(char::is_whitespace).with_context(wrong)?;
        let table =
            stf::resolve::pick(&manifest.tables, table, |t| &t.name, "table").map_err(anyhow::Error::msg)?;
        let (name, args) = call.trim().split_once('(').with_context(wrong)?;
        let args = args.strip_suffix(')').with_context(wrong)?;
        let action = stf::resolve::pick(&table.actions, name.trim(), |a| &a.name, "action")
            .map_err(anyhow::Error::msg)?;
        let values: Vec<Values> = split(args).into_iter().map(str::parse).collect::<Result<_, _>>()?;
        if values.len() != action.params.len() {
            let names: Vec<&str> = action.params.iter().map(|p| p.name.as_str()).collect();
            bail!(
                "{} takes {} values ({}), not {}",
                action.name,
                names.len(),
                names.join(", "),
                values.len()
            );
        }
        for (value, param) in values.iter().zip(&action.params) {
            value.fit(param.width).with_context(|| format!("{} of {}", param.name, action.name))?;
        }
        Ok(Adding { table, action, values, known: HashSet::new() })
    }

    /// The full name of the table.
    pub fn table(&self) -> &str {
        &self.table.name
    }

    /// The number of entries so far.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// The entry for a packet that looked up these keys; `None` if it exists already. `number` selects the values.
    pub fn line(&mut self, keys: Vec<Bits>, number: u64) -> anyhow::Result<Option<String>> {
        if self.known.contains(&keys) {
            return Ok(None);
        }
        self.room()?;
        let fields = self.table.keys.iter().filter(|k| k.kind != MatchKind::Selector);
        let matches =
            fields.zip(&keys).map(|(field, key)| format!(" {}:{}", field.name, exactly(field.kind, key)));
        let line = self.with(&matches.collect::<String>(), number);
        self.known.insert(keys);
        Ok(Some(line))
    }

    /// The entry for a prefix, in a table with one key field.
    pub fn prefix(&mut self, value: Bits, length: u32, number: u64) -> anyhow::Result<String> {
        let [key] = &self.table.keys[..] else { bail!("{} has more keys than a prefix", self.table.name) };
        if key.kind != MatchKind::Lpm || key.width != value.width() {
            bail!("{} has no lpm key of {} bits", self.table.name, value.width());
        }
        self.room()?;
        let line = self.with(&format!(" {}:{}/{length}", key.name, hex(&value)), number);
        self.known.insert(vec![value, Bits::new(32, length.into())]);
        Ok(line)
    }

    fn room(&self) -> anyhow::Result<()> {
        if self.known.len() as u64 == self.table.size {
            bail!("{} holds {} entries, and more are wanted", self.table.name, self.table.size);
        }
        Ok(())
    }

    fn with(&self, matches: &str, number: u64) -> String {
        let params = self.action.params.iter().zip(&self.values);
        let args = params.map(|(param, values)| format!("{}:{:#x}", param.name, values.nth(number.into())));
        let args = args.collect::<Vec<_>>().join(", ");
        let priority = if self.table.keys.iter().any(|k| k.kind.needs_priority()) { " 1" } else { "" };
        format!("add {}{priority}{matches} {}({args})", self.table.name, self.action.name)
    }
}

/// Splits a text at the commas outside of parentheses. Lists have parentheses around them.
fn split(args: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = args.split(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    parts.map(|p| p.strip_prefix('(').and_then(|p| p.strip_suffix(')')).unwrap_or(p)).collect()
}

/// A match of a single value.
fn exactly(kind: MatchKind, key: &Bits) -> String {
    let value = hex(key);
    match kind {
        MatchKind::Exact | MatchKind::Optional | MatchKind::Selector => value,
        MatchKind::Lpm => format!("{value}/{}", key.width()),
        MatchKind::Ternary => format!("{value}&&&{}", hex(&Bits::ones(key.width()))),
        MatchKind::Range => format!("{value}..{value}"),
    }
}

fn hex(value: &Bits) -> String {
    format!("{:#x}", value.to_big())
}

/// Records the key of the first lookup of a packet in a table.
pub struct LookedUp<'t> {
    table: &'t str,
    /// The key, and whether the lookup was a hit.
    pub found: Option<(Vec<Bits>, bool)>,
}

impl<'t> LookedUp<'t> {
    /// The name of the table.
    pub fn of(table: &'t str) -> LookedUp<'t> {
        LookedUp { table, found: None }
    }
}

impl Observer for LookedUp<'_> {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Applied { table, key, hit, .. } = event
            && table == self.table
            && self.found.is_none()
        {
            self.found = Some((key.into_iter().map(|(_, value)| value).collect(), hit.is_some()));
        }
    }
}
