//! Who computes beside the engine thread?
//!
//! One pool for the whole process, shared by products, attention and norms: two pools would fight for the cores between
//! every two products.

use super::kernel::Pool;
use std::sync::{Mutex, OnceLock};

/// More threads than this have never helped a product of this size.
const THREADS_MAX: usize = 64;

/// The pool. Its size is fixed at first use: `CLOISTER_THREADS`, else the number of processors.
pub(super) fn shared() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| {
        let asked = std::env::var("CLOISTER_THREADS").ok().and_then(|text| text.parse().ok());
        let there = || std::thread::available_parallelism().map_or(1, usize::from);
        Pool::new(asked.unwrap_or_else(there).clamp(1, THREADS_MAX))
    })
}

/// How many threads compute at once, the calling one included.
pub fn threads() -> usize {
    shared().threads()
}

/// Calls `work` once for each part, on all threads. A part may hold `&mut` slices: each is handed out exactly once.
pub(super) fn each<T: Send>(parts: Vec<T>, work: impl Fn(T) + Sync) {
    if parts.len() <= 1 {
        parts.into_iter().for_each(work);
        return;
    }
    // One uncontended lock for each part is the price of doing this without `unsafe`; parts are coarse.
    let parts: Vec<Mutex<Option<T>>> = parts.into_iter().map(|part| Mutex::new(Some(part))).collect();
    shared().run(parts.len(), |i| {
        if let Some(part) = parts[i].lock().ok().and_then(|mut slot| slot.take()) {
            work(part);
        }
    });
}

/// Calls `work(row, out_row)` for each row of `out`, in parallel when there are enough rows to be worth it.
pub(super) fn each_row(out: &mut [f32], columns: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    let rows = out.len() / columns;
    let rows_each = rows.div_ceil(threads() * 4).max(4);
    let parts = out.chunks_mut(rows_each * columns).enumerate().collect();
    each(parts, |(part, rows): (usize, &mut [f32])| {
        for (i, row) in rows.chunks_mut(columns).enumerate() {
            work(part * rows_each + i, row);
        }
    });
}
