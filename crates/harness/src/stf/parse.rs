//! Parses lines into statements. Every invalid line is reported, and the other lines are still parsed.

use super::{
    Call, Case, Cell, Check, Kind, Mirror, Number, Op, Pattern, Statement, StfError, Value, address,
};

/// Parses a case. `name` is the name of the case in messages.
pub fn parse(name: &str, text: &str) -> Result<Case, Vec<StfError>> {
    let mut case = Case { name: name.to_string(), statements: Vec::new() };
    let mut errors = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let line = index as u32 + 1;
        match statement(text) {
            Ok(Some(kind)) => case.statements.push(Statement { line, kind }),
            Ok(None) => {}
            Err(what) => errors.push(StfError { file: name.to_string(), line, what }),
        }
    }
    if errors.is_empty() { Ok(case) } else { Err(errors) }
}

type Parsed<T> = Result<T, String>;

fn statement(text: &str) -> Parsed<Option<Kind>> {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed.starts_with('#') {
        return Ok(None);
    }
    let end = trimmed.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(trimmed.len());
    let keyword = trimmed[..end].to_ascii_lowercase();
    let rest = &trimmed[end..];
    // Packet data is hexadecimal up to the end of the line, without comments or other words.
    let kind = match keyword.as_str() {
        "packet" => packet(rest)?,
        "expect" => expect(rest)?,
        _ => {
            let mut words = Words::new(rest)?;
            let kind = words.statement(&keyword)?;
            words.end()?;
            kind
        }
    };
    Ok(Some(kind))
}

fn port_and_data(text: &str) -> Parsed<(u32, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let port = text[..end].parse().map_err(|_| "a port number is expected here".to_string())?;
    let data = &text[end..];
    if data.chars().next().is_some_and(|c| !c.is_whitespace() && c != '$' && c != '*') {
        return Err(format!("`{}` is not a port number", text.split_whitespace().next().unwrap_or("")));
    }
    Ok((port, data))
}

fn packet(text: &str) -> Parsed<Kind> {
    let (port, data) = port_and_data(text)?;
    let mut nibbles = Vec::new();
    for c in data.chars().filter(|c| !c.is_whitespace()) {
        nibbles.push(c.to_digit(16).ok_or_else(|| format!("`{c}` is not a hexadecimal digit"))? as u8);
    }
    if nibbles.len() % 2 == 1 {
        return Err("half a byte is missing: an odd number of hexadecimal digits".into());
    }
    Ok(Kind::Packet { port, bytes: nibbles.chunks(2).map(|n| n[0] << 4 | n[1]).collect() })
}

fn expect(text: &str) -> Parsed<Kind> {
    let (port, data) = port_and_data(text)?;
    let mut pattern = Pattern { nibbles: Vec::new(), exact: false };
    for c in data.chars().filter(|c| !c.is_whitespace()) {
        match c {
            _ if pattern.exact => return Err("nothing may follow the `$` that ends a packet".into()),
            '$' => pattern.exact = true,
            '*' => pattern.nibbles.push(None),
            _ => match c.to_digit(16) {
                Some(digit) => pattern.nibbles.push(Some(digit as u8)),
                None => return Err(format!("`{c}` is not a hexadecimal digit, `*` or `$`")),
            },
        }
    }
    let anything = pattern.nibbles.is_empty() && !pattern.exact;
    Ok(Kind::Expect { port, pattern: (!anything).then_some(pattern) })
}

/// A token: a word or a sign.
#[derive(Clone, Debug, PartialEq)]
enum Word {
    /// A name: `a.b[3]`, `$ID`, or a quoted text.
    Name(String),
    Number(Number),
    /// A single `*`.
    Star,
    Sign(&'static str),
}

struct Words {
    words: Vec<Word>,
    at: usize,
}

/// The signs. A longer sign comes before its prefixes.
const SIGNS: [&str; 16] =
    ["&&&", "..", "==", "!=", "<=", ">=", "<", ">", "=", ":", ",", "(", ")", "/", ".", "-"];

impl Words {
    fn new(text: &str) -> Parsed<Words> {
        let mut words = Vec::new();
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next().filter(|c| *c != '#') {
            let value =
                matches!(words.last(), Some(Word::Sign(":" | "," | ".." | "&&&"))) && !rest.starts_with("..");
            let address = address::read(rest, value)?;
            let (word, length) = if let Some((number, length)) = address {
                (Word::Number(number), length)
            } else if first == '"' {
                let end = rest[1..].find('"').ok_or("a quotation mark is not closed")?;
                (Word::Name(rest[1..=end].to_string()), end + 2)
            } else if first.is_ascii_alphabetic() || first == '_' || first == '$' {
                let end = name_end(rest);
                (Word::Name(rest[..end].to_string()), end)
            } else if first.is_ascii_digit() {
                number(rest)?
            } else if first == '*' {
                (Word::Star, 1)
            } else {
                let sign = SIGNS.iter().find(|s| rest.starts_with(**s));
                let sign = sign.ok_or_else(|| format!("`{first}` means nothing here"))?;
                (Word::Sign(sign), sign.len())
            };
            words.push(word);
            rest = rest[length..].trim_start();
        }
        Ok(Words { words, at: 0 })
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = matches!(self.words.get(self.at), Some(Word::Sign(s)) if *s == sign);
        self.at += found as usize;
        found
    }

    fn need(&mut self, sign: &str) -> Parsed<()> {
        if self.eat(sign) { Ok(()) } else { Err(format!("`{sign}` is expected {}", self.here())) }
    }

    /// The current position in the line, for messages.
    fn here(&self) -> String {
        match self.words.get(self.at) {
            None => "at the end of the line".into(),
            Some(Word::Name(n)) => format!("before `{n}`"),
            Some(Word::Number(n)) => format!("before `{n}`"),
            Some(Word::Star) => "before `*`".into(),
            Some(Word::Sign(s)) => format!("before `{s}`"),
        }
    }

    fn name(&mut self, what: &str) -> Parsed<String> {
        match self.words.get(self.at) {
            Some(Word::Name(name)) => {
                self.at += 1;
                Ok(name.clone())
            }
            _ => Err(format!("{what} is expected {}", self.here())),
        }
    }

    fn number(&mut self) -> Parsed<Number> {
        match self.words.get(self.at) {
            Some(Word::Number(number)) => {
                self.at += 1;
                Ok(number.clone())
            }
            _ => Err(format!("a number is expected {}", self.here())),
        }
    }

    fn u64(&mut self) -> Parsed<u64> {
        let number = self.number()?;
        number.to_u64().ok_or_else(|| format!("`{number}` is not a plain number of 64 bits"))
    }

    fn u32(&mut self) -> Parsed<u32> {
        let value = self.u64()?;
        u32::try_from(value).map_err(|_| format!("{value} is too large"))
    }

    fn ports(&mut self) -> Parsed<Vec<u32>> {
        let mut ports = Vec::new();
        while self.at < self.words.len() {
            ports.push(self.u32()?);
        }
        Ok(ports)
    }

    fn end(&mut self) -> Parsed<()> {
        if self.at >= self.words.len() {
            Ok(())
        } else {
            Err(format!("the statement should end {}", self.here()))
        }
    }

    fn statement(&mut self, keyword: &str) -> Parsed<Kind> {
        Ok(match keyword {
            "add" => self.add()?,
            "setdefault" => Kind::SetDefault { table: self.name("a table")?, action: self.call()? },
            "no_packet" => Kind::NoPacket,
            "wait" => Kind::Wait,
            "remove" => match self.name("`all`")?.to_ascii_lowercase().as_str() {
                "all" => Kind::RemoveAll,
                other => return Err(format!("only `remove all` is known, not `remove {other}`")),
            },
            "check_counter" => self.check_counter()?,
            "mc_mgrp_create" => Kind::GroupCreate(self.u32()?),
            "mc_node_create" => Kind::NodeCreate { rid: self.u32()?, ports: self.ports()? },
            "mc_node_update" => Kind::NodeUpdate { node: self.u32()?, ports: self.ports()? },
            "mc_node_associate" => Kind::NodeAssociate { group: self.u32()?, node: self.u32()? },
            "counter_read" => Kind::CounterRead(self.name("a counter")?, self.u64()?),
            "counter_write" => {
                Kind::CounterWrite(self.name("a counter")?, self.u64()?, self.u64()?, self.u64()?)
            }
            "register_read" => Kind::RegisterRead(self.name("a register")?, self.u64()?),
            "register_write" => Kind::RegisterWrite(self.name("a register")?, self.u64()?, self.number()?),
            "register_reset" => Kind::RegisterReset(self.name("a register")?),
            "mirroring_add" => Kind::Mirroring(self.u32()?, Some(Mirror::Port(self.u32()?))),
            "mirroring_add_mc" => Kind::Mirroring(self.u32()?, Some(Mirror::Group(self.u32()?))),
            "mirroring_delete" => Kind::Mirroring(self.u32()?, None),
            "mirroring_get" => Kind::MirroringGet(self.u32()?),
            "member" => {
                Kind::Member { profile: self.name("a profile")?, id: self.u32()?, action: self.call()? }
            }
            "member_group" => Kind::MemberGroup {
                profile: self.name("a profile")?,
                id: self.u32()?,
                members: self.ports()?,
            },
            "clock" => Kind::Clock(self.u64()?),
            "host_port" => Kind::HostPort(self.u32()?),
            "expire_time" => Kind::ExpireTime(self.u32()?, self.u64()?),
            "value_set" => Kind::ValueSet(self.name("a value set")?, self.members()?),
            "idle_timeout" => Kind::IdleTimeout(self.entry()?, self.u64()?),
            "check_idle" => {
                let mut entries = Vec::new();
                while self.at < self.words.len() {
                    entries.push(self.entry()?);
                }
                Kind::CheckIdle(entries)
            }
            "check_digest" => {
                let name = self.name("a digest")?;
                let mut fields = Vec::new();
                while self.at < self.words.len() {
                    let field = self.name("a field")?;
                    self.need(":")?;
                    fields.push((field, self.number()?));
                }
                Kind::CheckDigest(name, fields)
            }
            "no_digest" => Kind::NoDigest,
            "check_log" => Kind::CheckLog(self.name("a text")?),
            "no_log" => Kind::NoLog,
            "meter_get_rates" => Kind::MeterGet(self.name("a meter")?, self.u64()?),
            "meter_set_rates" => Kind::MeterRates {
                meter: self.name("a meter")?,
                index: Some(self.u64()?),
                rates: self.rates()?,
            },
            "meter_array_set_rates" => {
                Kind::MeterRates { meter: self.name("a meter")?, index: None, rates: self.rates()? }
            }
            other => return Err(format!("`{other}` is not an STF statement")),
        })
    }

    fn add(&mut self) -> Parsed<Kind> {
        let table = self.name("a table")?;
        let priority = self.priority()?;
        let mut keys = Vec::new();
        while matches!(self.words.get(self.at + 1), Some(Word::Sign(":"))) {
            let key = self.name("a key field")?;
            self.need(":")?;
            keys.push((key, self.value()?));
        }
        self.no_bare_value()?;
        let action = self.call()?;
        let id = if self.eat("=") { Some(self.name("an entry's name")?) } else { None };
        Ok(Kind::Add { table, priority, keys, action, id })
    }

    /// A plain number after the table's name: the priority.
    fn priority(&mut self) -> Parsed<Option<i32>> {
        let Some(Word::Number(number)) = self.words.get(self.at) else { return Ok(None) };
        let more = matches!(self.words.get(self.at + 1), Some(Word::Sign("/" | "&&&" | ".." | ":")));
        let fits = number.to_u64().and_then(|n| i32::try_from(n).ok());
        match fits.filter(|_| number.address.is_none() && !more) {
            Some(priority) => {
                self.at += 1;
                Ok(Some(priority))
            }
            None => self.no_bare_value().map(|()| None),
        }
    }

    /// An error if there is a value without its key's name, where a key or the action is expected.
    fn no_bare_value(&self) -> Parsed<()> {
        match self.words.get(self.at) {
            Some(word @ (Word::Number(_) | Word::Star)) => {
                let value = match word {
                    Word::Number(number) => number.to_string(),
                    _ => "*".to_string(),
                };
                Err(format!("the name of a key field is missing before `{value}`: write `KEY:{value}`"))
            }
            _ => Ok(()),
        }
    }

    fn value(&mut self) -> Parsed<Value> {
        if matches!(self.words.get(self.at), Some(Word::Star)) {
            self.at += 1;
            return Ok(Value::Any);
        }
        let number = self.number()?;
        if self.eat("/") {
            return Ok(Value::Prefix(number, self.u32()?));
        }
        if self.eat("&&&") {
            return Ok(Value::Masked(number, self.number()?));
        }
        if self.eat("..") {
            return Ok(Value::Range(number, self.number()?));
        }
        Ok(Value::Number(number))
    }

    fn call(&mut self) -> Parsed<Call> {
        let mut call = Call { name: self.name("an action")?, args: Vec::new() };
        self.need("(")?;
        while !self.eat(")") {
            if !call.args.is_empty() {
                self.need(",")?;
            }
            let name = self.name("an argument's name")?;
            self.need(":")?;
            call.args.push((name, self.number()?));
        }
        Ok(call)
    }

    /// An entry's id: `$ID` or `ID`.
    fn entry(&mut self) -> Parsed<String> {
        Ok(self.name("an entry's name")?.trim_start_matches('$').to_string())
    }

    /// Zero or more members, each `PART,PART`.
    fn members(&mut self) -> Parsed<Vec<Vec<Value>>> {
        let mut members = Vec::new();
        while self.at < self.words.len() {
            let mut parts = vec![self.value()?];
            while self.eat(",") {
                parts.push(self.value()?);
            }
            members.push(parts);
        }
        Ok(members)
    }

    fn check_counter(&mut self) -> Parsed<Kind> {
        let counter = self.name("a counter")?;
        self.need("(")?;
        let cell = match self.words.get(self.at) {
            Some(Word::Name(_)) => Cell::Entry(self.entry()?),
            _ => Cell::Index(self.u64()?),
        };
        self.need(")")?;
        let check = if self.at < self.words.len() { Some(self.check()?) } else { None };
        Ok(Kind::CheckCounter { counter, cell, check })
    }

    fn check(&mut self) -> Parsed<Check> {
        let bytes = match self.name("`packets` or `bytes`")?.to_ascii_lowercase().as_str() {
            "packets" => false,
            "bytes" => true,
            other => return Err(format!("a counter has `packets` and `bytes`, not `{other}`")),
        };
        let ops = [Op::Eq, Op::Ne, Op::Le, Op::Ge, Op::Lt, Op::Gt];
        let op = ops.into_iter().find(|op| self.eat(op.symbol()));
        let op = op.ok_or_else(|| format!("a comparison is expected {}", self.here()))?;
        Ok(Check { bytes, op, value: self.u64()? })
    }

    /// Zero or more rates, each `RATE:BURST`. A rate may have a fraction, such as `0.001`.
    fn rates(&mut self) -> Parsed<Vec<(f64, u64)>> {
        let mut rates = Vec::new();
        while self.at < self.words.len() {
            let mut rate = self.number()?.to_string();
            if self.eat(".") {
                rate = format!("{rate}.{}", self.number()?);
            }
            let rate: f64 = rate.parse().map_err(|_| format!("`{rate}` is not a rate"))?;
            self.need(":")?;
            rates.push((rate, self.u64()?));
        }
        Ok(rates)
    }
}

/// The length of the name at the beginning of a text. A name includes dots, `$` and indexes: `hdr.vlan[1].vid`, `extra$0.h`.
fn name_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let c = bytes[end];
        let joins =
            c == b'.' && bytes.get(end + 1).is_some_and(|n| n.is_ascii_alphabetic() || b"_$".contains(n));
        let index = match c {
            b'[' => text[end..]
                .find(']')
                .filter(|close| *close > 1 && bytes[end + 1..end + close].iter().all(u8::is_ascii_digit)),
            _ => None,
        };
        match index {
            Some(close) => end += close + 1,
            None if c.is_ascii_alphanumeric() || c == b'_' || c == b'$' || joins => end += 1,
            None => break,
        }
    }
    end
}

fn number(text: &str) -> Parsed<(Word, usize)> {
    let lower = |n: usize| text.as_bytes().get(n).map(u8::to_ascii_lowercase);
    let (digit_bits, from): (u32, usize) = match (lower(0), lower(1)) {
        (Some(b'0'), Some(b'x')) => (4, 2),
        (Some(b'0'), Some(b'b')) => (1, 2),
        _ => (0, 0),
    };
    let digit = |c: char| match digit_bits {
        4 => c.is_ascii_hexdigit() || c == '*',
        1 => matches!(c, '0' | '1' | '*'),
        _ => c.is_ascii_digit(),
    };
    let length = text[from..].find(|c| !digit(c)).unwrap_or(text.len() - from);
    let after = text[from + length..].chars().next();
    if length == 0 || after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
        let word: String = text.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
        return Err(format!("`{word}` is not a number"));
    }
    let digits = text[from..from + length].to_string();
    Ok((Word::Number(Number { digit_bits, digits, address: None }), from + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Kind {
        parse("t.stf", text).unwrap().statements.remove(0).kind
    }

    fn error(text: &str) -> String {
        parse("t.stf", text).unwrap_err()[0].to_string()
    }

    #[test]
    fn entries() {
        let Kind::Add { table, priority, keys, action, id } = one(
            "ADD a.test1 100 data.$valid:0b1 extra$0.h:0x25** hdr.v[1].x:10/8 t:0x1&&&0x3 r:1..5 o:* setb1(val:0x7f, port:2) = A # x",
        ) else {
            panic!()
        };
        assert_eq!((table.as_str(), priority, id.as_deref()), ("a.test1", Some(100), Some("A")));
        let names: Vec<&str> = keys.iter().map(|(k, _)| k.as_str()).collect();
        assert_eq!(names, ["data.$valid", "extra$0.h", "hdr.v[1].x", "t", "r", "o"]);
        assert!(matches!(&keys[2].1, Value::Prefix(n, 8) if n.digits == "10"));
        assert!(matches!(&keys[4].1, Value::Range(..)));
        assert_eq!(keys[5].1, Value::Any);
        assert_eq!((action.name.as_str(), action.args.len()), ("setb1", 2));
    }

    #[test]
    fn addresses() {
        let Kind::Add { keys, action, .. } = one(
            "add t a:192.0.2.0/24 b:2001:db8::1 c:fe80::1&&&ffff:: d:00:00:5e:00:53:01 e:10.0.0.1..10.0.0.9 f:::/0 \
             g:64:ff9b::192.0.2.1 set(ip:192.0.2.1, mac:0a:0b:0c:0d:0e:0f)",
        ) else {
            panic!()
        };
        let digits = |value: &Value| match value {
            Value::Number(a) | Value::Prefix(a, _) => a.digits.clone(),
            Value::Masked(a, b) | Value::Range(a, b) => format!("{} {}", a.digits, b.digits),
            Value::Any => String::new(),
        };
        let digits: Vec<String> = keys.iter().map(|(_, value)| digits(value)).collect();
        let zeros = "0".repeat(28);
        assert_eq!(digits[0], "c0000200");
        assert_eq!(digits[1], "20010db8000000000000000000000001");
        assert_eq!(digits[2], format!("fe80{}1 ffff{zeros}", "0".repeat(27)));
        assert_eq!((digits[3].as_str(), digits[4].as_str()), ("00005e005301", "0a000001 0a000009"));
        assert!(matches!(&keys[5].1, Value::Prefix(_, 0)));
        assert_eq!(digits[6], "0064ff9b0000000000000000c0000201");
        assert_eq!(action.args[1].1.digits, "0a0b0c0d0e0f");
        assert_eq!(
            error("add t a:192.0.2.300 b()"),
            "t.stf:1: `192.0.2.300` is no IPv4, IPv6 or MAC address"
        );
        assert_eq!(error("add t a:2001:db8:1 b()"), "t.stf:1: `2001:db8:1` is no IPv4, IPv6 or MAC address");
    }

    #[test]
    fn packets() {
        assert_eq!(one("packet 3 0a 0B\t1c"), one("packet 3 0a0b1C"));
        assert_eq!(one("expect 5"), Kind::Expect { port: 5, pattern: None });
        let pattern = Pattern { nibbles: vec![Some(1), None], exact: true };
        assert_eq!(one("expect 5 1* $"), Kind::Expect { port: 5, pattern: Some(pattern) });
    }

    #[test]
    fn counters_and_the_rest() {
        let check = Some(Check { bytes: true, op: Op::Ge, value: 16 });
        let counter = "drop.ttl_expired".to_string();
        assert_eq!(
            one("check_counter drop.ttl_expired(0) bytes >= 0x10"),
            Kind::CheckCounter { counter, cell: Cell::Index(0), check }
        );
        let cell = Cell::Entry("A".into());
        assert_eq!(one("check_counter c($A)"), Kind::CheckCounter { counter: "c".into(), cell, check: None });
        for line in [
            "wait",
            "no_packet",
            "remove all",
            "mc_mgrp_create 7",
            "mc_node_create 400 6 7",
            "mc_node_associate 1 0",
            "mc_node_update 0 3",
            "register_write r 1 0xff",
            "register_read r 1",
            "register_reset r",
            "counter_read c 0",
            "counter_write c 0 1 2",
            "mirroring_add 1 5",
            "mirroring_add_mc 1 5",
            "mirroring_delete 1",
            "mirroring_get 1",
            "clock 1000000",
            "member p 1 a(x:1)",
            "member_group p 1 1 2",
            "value_set v 1 2&&&3,0x4 *,5",
            "idle_timeout $a 100",
            "check_idle $a b",
            "check_digest d x:1 y.z:0x2",
            "no_digest",
            "check_log \"port {} 5\"",
            "no_log",
            "host_port 3",
            "expire_time 1 30000000",
            "meter_get_rates m 0",
            "meter_set_rates m 0 0.5:1 2:3",
            "meter_array_set_rates m 1:2",
        ] {
            one(line);
        }
        assert!(parse("t.stf", "# c\n\n   # d\n").unwrap().statements.is_empty());
    }

    #[test]
    fn errors_say_where_and_what() {
        assert_eq!(error("\nadd t k:1"), "t.stf:2: an action is expected at the end of the line");
        assert_eq!(
            error("packet 1 0a0"),
            "t.stf:1: half a byte is missing: an odd number of hexadecimal digits"
        );
        assert_eq!(error("packet 1 zz"), "t.stf:1: `z` is not a hexadecimal digit");
        let missing = |value: &str| {
            format!("t.stf:1: the name of a key field is missing before `{value}`: write `KEY:{value}`")
        };
        assert_eq!(error("add t 0xc0000201 a()"), missing("0xc0000201"));
        assert_eq!(error("add t 192.0.2.1 a()"), missing("192.0.2.1"));
        assert_eq!(error("add t 10/8 a()"), missing("10"));
        assert_eq!(error("add t 5 7 a()"), missing("7"));
        assert_eq!(error("add t k:1 * a()"), missing("*"));
        assert_eq!(error("frobnicate"), "t.stf:1: `frobnicate` is not an STF statement");
        assert_eq!(error("add t k:0xg a()"), "t.stf:1: `0xg` is not a number");
        assert_eq!(error("setdefault t a(x:1 y:2)"), "t.stf:1: `,` is expected before `y`");
        assert_eq!(parse("t", "packet\nexpect\nadd").unwrap_err().len(), 3);
    }
}
