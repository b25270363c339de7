//! Who computes beside the engine thread?
//!
//! candle keeps one process-wide pool of spinning workers for its multiplications. We use the same pool for
//! attention and norms: a second one would fight it for the cores between every two multiplications.

use candle_core::utils::barrier_pool;
use std::sync::Mutex;

/// How many threads compute at once, the calling one included. Fixed for the life of the process by candle, from
/// `CANDLE_NUM_THREADS`, else `RAYON_NUM_THREADS`, else the number of physical cores.
pub fn threads() -> usize {
    barrier_pool().n_workers() + 1
}

/// Calls `work` once for each part, on all threads. A part may hold `&mut` slices: each is handed out exactly once.
pub(super) fn each<T: Send>(parts: Vec<T>, work: impl Fn(T) + Sync) {
    if parts.len() <= 1 {
        parts.into_iter().for_each(work);
        return;
    }
    // One uncontended lock for each part is the price of doing this without `unsafe`; parts are coarse.
    let parts: Vec<Mutex<Option<T>>> = parts.into_iter().map(|part| Mutex::new(Some(part))).collect();
    barrier_pool().execute_chunked(parts.len(), |range| {
        for slot in &parts[range] {
            let part = slot.lock().ok().and_then(|mut slot| slot.take());
            if let Some(part) = part {
                work(part);
            }
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
