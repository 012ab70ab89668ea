//! Places the nodes of a graph in layers (Sugiyama, Tagawa and Toda 1981): edges lead down, and nodes in a layer are ordered by their neighbours.
//!
//! The time is nearly linear in the number of edges and of the layers that they cross, so that programs with a thousand conditions are drawn in a second.

/// The space between two layers, and between two nodes of a layer, in pixels.
const LAYERS: f64 = 46.0;
const NODES: f64 = 26.0;
/// The width that an edge takes in a layer that it crosses.
const LANE: f64 = 14.0;
/// How often the order in the layers, and the places in them, are improved.
const ROUNDS: usize = 8;

/// A graph whose nodes have places.
pub(super) struct Placed {
    /// The centre of each node.
    pub nodes: Vec<(f64, f64)>,
    /// The points of each edge: its source, one point in each layer that it crosses, and its target. A loop has its node twice.
    pub edges: Vec<Vec<(f64, f64)>>,
    /// The size of the whole.
    pub size: (f64, f64),
}

/// What stands in a layer: a node, or an edge that crosses it.
struct Item {
    width: f64,
    layer: usize,
    /// The number of layers on the longest path from here down.
    below: usize,
    x: f64,
    up: Vec<usize>,
    down: Vec<usize>,
}

/// The layers of a graph with their items. The first items are the nodes.
struct Layers {
    items: Vec<Item>,
    /// The items of each layer, from left to right.
    rows: Vec<Vec<usize>>,
}

/// Places nodes of these sizes. Edges are pairs of indexes.
pub(super) fn place(sizes: &[(f64, f64)], edges: &[(usize, usize)]) -> Placed {
    let back = back_edges(sizes.len(), edges);
    let down: Vec<(usize, usize)> =
        edges.iter().zip(&back).map(|(&(a, b), back)| if *back { (b, a) } else { (a, b) }).collect();
    let (mut layers, chains) = Layers::of(sizes, &down);
    for round in 0..=ROUNDS {
        layers.order(round % 2 == 0);
    }
    layers.pack();
    for round in 0..=2 * ROUNDS {
        layers.straighten(round % 2 == 0);
    }
    layers.placed(sizes, &chains, &back)
}

/// For each edge, whether it leads back to a node that leads to it. Without these edges, the graph has no cycle.
fn back_edges(nodes: usize, edges: &[(usize, usize)]) -> Vec<bool> {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    edges.iter().enumerate().for_each(|(e, (from, _))| out[*from].push(e));
    // 0: not seen yet, 1: on the path from the first node, 2: done.
    let mut state = vec![0u8; nodes];
    let mut back = vec![false; edges.len()];
    for first in 0..nodes {
        let mut path = vec![(first, 0)];
        while let Some((node, next)) = path.last_mut() {
            if *next == 0 && state[*node] != 0 {
                path.pop();
                continue;
            }
            state[*node] = 1;
            let Some(&edge) = out[*node].get(*next) else {
                state[*node] = 2;
                path.pop();
                continue;
            };
            *next += 1;
            match state[edges[edge].1] {
                0 => path.push((edges[edge].1, 0)),
                1 => back[edge] = true,
                _ => {}
            }
        }
    }
    back
}

/// The layer of each node: below all nodes that lead to it.
fn depths(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut waits = vec![0; nodes];
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (from, to) in edges.iter().filter(|(from, to)| from != to) {
        out[*from].push(*to);
        waits[*to] += 1;
    }
    let mut depth = vec![0; nodes];
    let mut ready: Vec<usize> = (0..nodes).filter(|n| waits[*n] == 0).collect();
    while let Some(node) = ready.pop() {
        for to in &out[node] {
            depth[*to] = depth[*to].max(depth[node] + 1);
            waits[*to] -= 1;
            if waits[*to] == 0 {
                ready.push(*to);
            }
        }
    }
    depth
}

impl Layers {
    /// The layers, and for each edge the items on its way.
    fn of(sizes: &[(f64, f64)], edges: &[(usize, usize)]) -> (Layers, Vec<Vec<usize>>) {
        let depth = depths(sizes.len(), edges);
        let item = |width: f64, layer: usize| Item {
            width,
            layer,
            below: 0,
            x: 0.0,
            up: Vec::new(),
            down: Vec::new(),
        };
        let mut items: Vec<Item> =
            sizes.iter().zip(&depth).map(|(size, layer)| item(size.0, *layer)).collect();
        let mut chains = Vec::new();
        for &(from, to) in edges {
            let mut chain = vec![from];
            for layer in depth[from] + 1..depth[to] {
                chain.push(items.len());
                items.push(item(LANE, layer));
            }
            chain.push(to);
            if from != to {
                for pair in chain.windows(2) {
                    items[pair[0]].down.push(pair[1]);
                    items[pair[1]].up.push(pair[0]);
                }
            }
            chains.push(chain);
        }
        let mut rows = vec![Vec::new(); depth.iter().max().map_or(0, |last| last + 1)];
        items.iter().enumerate().for_each(|(i, item)| rows[item.layer].push(i));
        for row in rows.iter().rev() {
            for i in row {
                items[*i].below = items[*i].down.iter().map(|n| items[*n].below + 1).max().unwrap_or(0);
            }
        }
        (Layers { items, rows }, chains)
    }

    /// Orders each layer by the middle of the neighbours above, or below.
    fn order(&mut self, from_above: bool) {
        let mut at = vec![0.0; self.items.len()];
        let rows: Vec<usize> =
            if from_above { (0..self.rows.len()).collect() } else { (0..self.rows.len()).rev().collect() };
        for row in rows {
            // Places count from the middle of the layer, because layers have different numbers of items.
            let middle = self.rows[row].len() as f64 / 2.0;
            let mut keyed: Vec<(f64, usize)> = Vec::new();
            for (place, i) in self.rows[row].iter().enumerate() {
                let item = &self.items[*i];
                let near = if from_above { &item.up } else { &item.down };
                let mean = near.iter().map(|n| at[*n]).sum::<f64>() / near.len().max(1) as f64;
                keyed.push((if near.is_empty() { place as f64 - middle } else { mean }, *i));
            }
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            self.rows[row] = keyed.into_iter().map(|(_, i)| i).collect();
            self.rows[row].iter().enumerate().for_each(|(place, i)| at[*i] = place as f64 - middle);
        }
    }

    /// The least distance between the centres of two items.
    fn apart(&self, left: usize, right: usize) -> f64 {
        (self.items[left].width + self.items[right].width) / 2.0 + NODES
    }

    /// Puts the items of each layer side by side.
    fn pack(&mut self) {
        for row in 0..self.rows.len() {
            let mut x = 0.0;
            for at in 0..self.rows[row].len() {
                let item = self.rows[row][at];
                if at > 0 {
                    x += self.apart(self.rows[row][at - 1], item);
                }
                self.items[item].x = x;
            }
            let middle = x / 2.0;
            self.rows[row].iter().for_each(|i| self.items[*i].x -= middle);
        }
    }

    /// Moves the items of each layer to where they want to stand, as far as their order and distances allow: the weighted least squares, by the
    /// pool-adjacent-violators algorithm. Items with long paths below them weigh more.
    fn straighten(&mut self, from_above: bool) {
        for step in 0..self.rows.len() {
            let row = if from_above { step } else { self.rows.len() - 1 - step };
            let order = self.rows[row].clone();
            let mut offset = 0.0;
            // Blocks of items that stand as near to each other as they may: the place that its first item would have without the others, its weight,
            // and its number of items.
            let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
            for (at, i) in order.iter().enumerate() {
                if at > 0 {
                    offset += self.apart(order[at - 1], *i);
                }
                let weight = ((self.items[*i].below + 1) as f64).powi(2);
                let mut block = (self.wanted(*i, from_above) - offset, weight, 1);
                while let Some(last) = blocks.pop_if(|last| last.0 > block.0) {
                    let sum = last.1 + block.1;
                    block = ((last.0 * last.1 + block.0 * block.1) / sum, sum, last.2 + block.2);
                }
                blocks.push(block);
            }
            self.set_row(&order, &blocks);
        }
    }

    fn set_row(&mut self, order: &[usize], blocks: &[(f64, f64, usize)]) {
        let places = blocks.iter().flat_map(|(place, _, count)| std::iter::repeat_n(*place, *count));
        let mut offset = 0.0;
        for (at, place) in places.enumerate() {
            if at > 0 {
                offset += self.apart(order[at - 1], order[at]);
            }
            self.items[order[at]].x = place + offset;
        }
    }

    /// Where an item wants to stand: on a straight line with the neighbour that has the longest path below it. Other items stand beside that line, so
    /// that a chain of conditions with short branches leads straight down.
    fn wanted(&self, i: usize, from_above: bool) -> f64 {
        let item = &self.items[i];
        let near = if from_above { &item.up } else { &item.down };
        let mean = |places: &mut dyn Iterator<Item = f64>| {
            let (sum, count) = places.fold((0.0, 0.0), |(sum, count), x| (sum + x, count + 1.0));
            if count > 0.0 { sum / count } else { item.x }
        };
        if !from_above {
            let longest = near.iter().map(|n| self.items[*n].below).max().unwrap_or(0);
            let main = near.iter().filter(|n| self.items[**n].below == longest);
            return mean(&mut main.map(|n| self.items[*n].x));
        }
        mean(&mut near.iter().map(|above| {
            let below = &self.items[*above].down;
            let main = below.iter().copied().max_by_key(|n| (self.items[*n].below, *n == i)).unwrap_or(i);
            let side = if item.x < self.items[main].x { -1.0 } else { 1.0 };
            self.items[*above].x + if main == i { 0.0 } else { side * self.apart(main, i) }
        }))
    }

    fn placed(&self, sizes: &[(f64, f64)], chains: &[Vec<usize>], back: &[bool]) -> Placed {
        let mut y = Vec::new();
        let mut height = 0.0;
        for row in &self.rows {
            let tallest = row.iter().filter_map(|i| sizes.get(*i)).map(|size| size.1).fold(0.0, f64::max);
            y.push(height + tallest / 2.0);
            height += tallest + LAYERS;
        }
        let first = self.items.iter().map(|item| item.x - item.width / 2.0).fold(f64::MAX, f64::min);
        let last = self.items.iter().map(|item| item.x + item.width / 2.0).fold(f64::MIN, f64::max);
        let point = |i: usize| (self.items[i].x - first, y[self.items[i].layer]);
        let edge = |(chain, back): (&Vec<usize>, &bool)| {
            let mut points: Vec<(f64, f64)> = chain.iter().map(|i| point(*i)).collect();
            if *back {
                points.reverse();
            }
            points
        };
        Placed {
            nodes: (0..sizes.len()).map(point).collect(),
            edges: chains.iter().zip(back).map(edge).collect(),
            size: ((last - first).max(0.0), (height - LAYERS).max(0.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_stand_below_what_leads_to_them_and_apart_from_each_other() {
        // A diamond with an edge past it, a loop, and an edge back.
        let edges = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (2, 2), (3, 1)];
        let sizes = [(60.0, 20.0), (80.0, 20.0), (40.0, 30.0), (60.0, 20.0)];
        let placed = place(&sizes, &edges);
        for (a, b) in edges.iter().take(5) {
            assert!(placed.nodes[*a].1 < placed.nodes[*b].1, "{a} stands above {b}");
        }
        let (left, right) = (placed.nodes[1].0, placed.nodes[2].0);
        assert!((left - right).abs() >= 60.0 + NODES, "{left} {right}");
        // The long edge crosses a layer, and the edge back begins at its source.
        assert_eq!(placed.edges[4].len(), 3);
        assert_eq!(placed.edges[6].first(), Some(&placed.nodes[3]));
    }

    #[test]
    fn a_thousand_conditions_with_a_common_end_take_no_time_to_speak_of() {
        let sizes = vec![(100.0, 30.0); 1001];
        let edges: Vec<(usize, usize)> =
            (0..1000).flat_map(|i| [(i, i + 1), (i, 1000)]).filter(|(a, b)| a < b).collect();
        assert_eq!(place(&sizes, &edges).nodes.len(), 1001);
    }
}
