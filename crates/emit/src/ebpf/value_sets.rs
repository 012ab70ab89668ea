//! The value sets of parsers: arrays that are searched member by member.

use abi::MatchKind;

use super::Ebpf;

/// The most members of a set. The kernel's verifier follows each iteration of the search.
const MOST: u64 = 1024;

impl Ebpf<'_> {
    /// Emits the map of each value set, and a function that says whether the keys in `t->member` are in it. The kernel verifies it once, and
    /// not on each path through the parser.
    pub(super) fn value_sets(&mut self) {
        for (i, set) in self.c.manifest.value_sets.clone().iter().enumerate() {
            let Some(map) = &set.map else { continue };
            if set.size > MOST {
                let loc = self.c.program.value_sets[i].loc;
                let what = format!("a value set with more than {MOST} members");
                self.c.refuse(loc, &what, "a table in the ingress control can be filled as well");
                continue;
            }
            let words = 4 * set.keys.len();
            let t = &mut self.c.text;
            t.line("");
            t.open(format!("struct value_set_{i}"));
            t.line("u64 count; /* the number of members; in element 0 the element in use */");
            t.line(format!("u64 members[{}][{words}];", set.size.max(1)));
            t.close(";");
            self.map(map, "BPF_MAP_TYPE_ARRAY", 3, "u32", &format!("struct value_set_{i}"), false);
            let t = &mut self.c.text;
            t.line("");
            t.open(format!("NOINLINE u32 in_value_set_{i}(void)"));
            t.line("struct packet *packet = get_packet();");
            t.line("u32 at = 0;");
            t.line(format!("struct value_set_{i} *set = bpf_map_lookup_elem(&{map}, &at);"));
            t.line("if (!packet || !set || !(at = (u32)READ_ONCE(set->count)))");
            t.line("    return 0;");
            t.line(format!("set = bpf_map_lookup_elem(&{map}, &at);"));
            t.line("if (!set)");
            t.line("    return 0;");
            t.line("const u64 *key = packet->scratch.member;");
            t.open(format!("for (u32 i = 0; i < {} && i < set->count; i++)", set.size.max(1)));
            t.line("const u64 *m = set->members[i];");
            t.line("u64 differs = 0;");
            for (part, field) in set.keys.iter().enumerate() {
                let (k, m, wide) = (2 * part, 4 * part, field.width > 64);
                if field.kind == MatchKind::Range {
                    let [key, low, high] = match wide {
                        false => [format!("key[{k}]"), format!("m[{m}]"), format!("m[{}]", m + 2)],
                        true => [("key", k), ("m", m), ("m", m + 2)]
                            .map(|(of, at)| format!("U128({of}[{}], {of}[{at}])", at + 1)),
                    };
                    t.line(format!("differs |= {key} < {low} || {key} > {high};"));
                    continue;
                }
                for word in 0..=usize::from(wide) {
                    let (k, m) = (k + word, m + word);
                    t.line(format!("differs |= (key[{k}] & m[{}]) ^ m[{m}];", m + 2));
                }
            }
            t.line("if (!differs)");
            t.line("    return 1;");
            t.close("");
            t.line("return 0;");
            t.close("");
        }
    }
}
