//! How fast are the kernels, beside candle's, on this machine and under this load?
//!
//! `kernel_speed [shape-filter] [threads]`: times one row and many rows for the shapes of a 1.5B model, in medians. Random weights;
//! each matrix is as large as in the model, or repeated until a pass leaves the caches.

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{Device, Module, Tensor};
use inference::model::kernel::{Activations, Kind, Packed, Pool, forward_each};
use std::borrow::Cow;
use std::time::{Duration, Instant};

const SHAPES: [(Kind, usize, usize); 8] = [
    (Kind::Q4K, 1536, 1536),
    (Kind::Q4K, 256, 1536),
    (Kind::Q4K, 8960, 1536),
    (Kind::Q4K, 1536, 8960),
    (Kind::Q6K, 1536, 8960),
    (Kind::Q6K, 151936, 1536),
    (Kind::Q5_0, 4864, 896),
    (Kind::Q8_0, 4864, 896),
];

/// A pass over the copies of a matrix reads at least this much, so that it comes from memory.
const COLD_BYTES: usize = 300 << 20;

const MANY_ROWS: usize = 256;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let filter = arguments.next().unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let threads = arguments.next().and_then(|threads| threads.parse().ok()).unwrap_or(cores);
    let candle = std::env::var_os("WITHOUT_CANDLE").is_none();
    let pool = Pool::new(threads);
    println!("{threads} threads, load {}", load());
    println!("memory alone: {:.1} GB/s", memory_speed(&pool));
    println!("type rows columns | 1 row: GB/s, candle | {MANY_ROWS} rows: GMAC/s, candle | pack GB/s");
    for (kind, rows, columns) in SHAPES {
        let name = format!("{kind:?} {rows} {columns}");
        if name.contains(&filter) {
            println!("{name} {}", measure(kind, rows, columns, candle, &pool));
        }
    }
    println!("load {}", load());
}

fn measure(kind: Kind, rows: usize, columns: usize, candle: bool, pool: &Pool) -> String {
    let raw = random_blocks(kind, rows * columns);
    let start = Instant::now();
    let first = Packed::new(kind, rows, columns, &raw, pool).expect("the shape packs");
    let packing = raw.len() as f64 / start.elapsed().as_secs_f64() / 1e9;
    let copies = COLD_BYTES.div_ceil(raw.len());
    let mut matrices = vec![first];
    matrices.extend((1..copies).map(|_| Packed::new(kind, rows, columns, &raw, pool).expect("the shape packs")));
    let bytes = raw.len() as f64;
    let macs = (rows * columns * MANY_ROWS) as f64;

    let x = random(columns);
    let mut out = vec![0.0; rows];
    let one = median(2.max(20 / copies), || matrices.iter().for_each(|matrix| matrix.forward(&x, 1, &mut out, pool)));
    let many_rows = if rows > 100_000 { 16 } else { MANY_ROWS };
    let x = random(columns * many_rows);
    let mut out = vec![0.0; rows * many_rows];
    let mut activations = Activations::new(kind.grain());
    let mut next = matrices.iter().cycle();
    let many = median(9, || {
        activations.fill(kind.grain(), &x, many_rows, pool);
        let matrix = next.next().expect("a cycle does not end");
        forward_each(&activations, &mut [(matrix, &mut out)], pool);
    });
    let macs = macs * many_rows as f64 / MANY_ROWS as f64;
    let ours = [bytes * copies as f64 / one.as_secs_f64() / 1e9, macs / many.as_secs_f64() / 1e9];
    drop(matrices);

    let theirs = if candle { measure_candle(kind, rows, columns, &raw, many_rows) } else { [f64::NAN; 2] };
    format!("| {:.1} {:.1} | {:.0} {:.0} | {packing:.1}", ours[0], theirs[0], ours[1], theirs[1])
}

fn measure_candle(kind: Kind, rows: usize, columns: usize, raw: &[u8], many_rows: usize) -> [f64; 2] {
    let dtype = match kind {
        Kind::Q4K => GgmlDType::Q4K,
        Kind::Q6K => GgmlDType::Q6K,
        Kind::Q8_0 => GgmlDType::Q8_0,
        Kind::Q5_0 => GgmlDType::Q5_0,
    };
    let copies = COLD_BYTES.div_ceil(raw.len());
    let matrix = || {
        let storage = QStorage::from_data(Cow::Borrowed(raw), &Device::Cpu, dtype).expect("whole blocks");
        QMatMul::from_qtensor(QTensor::new(storage, (rows, columns)).expect("the shape")).expect("a matrix")
    };
    let matrices: Vec<QMatMul> = (0..copies).map(|_| matrix()).collect();
    let tensor = |m: usize| Tensor::from_vec(random(m * columns), (m, columns), &Device::Cpu).expect("a tensor");
    let (x, many_x) = (tensor(1), tensor(many_rows));
    let multiply = |matrix: &QMatMul, x: &Tensor| drop(matrix.forward(x).expect("a product"));
    multiply(&matrices[0], &many_x);
    matrices.iter().for_each(|matrix| multiply(matrix, &x));
    let one = median(2.max(20 / copies), || matrices.iter().for_each(|matrix| multiply(matrix, &x)));
    let many = median(3, || multiply(&matrices[0], &many_x));
    let macs = (rows * columns * many_rows) as f64;
    [(raw.len() * copies) as f64 / one.as_secs_f64() / 1e9, macs / many.as_secs_f64() / 1e9]
}

/// What all threads together read, summing words.
fn memory_speed(pool: &Pool) -> f64 {
    let words = vec![1u64; COLD_BYTES / 8];
    let part = words.len() / 1024;
    let time = median(5, || {
        pool.run(1024, |i| {
            let part = &words[i * part..][..part];
            std::hint::black_box(part.iter().fold(0u64, |sum, word| sum ^ word));
        });
    });
    COLD_BYTES as f64 / time.as_secs_f64() / 1e9
}

fn median(times: usize, mut work: impl FnMut()) -> Duration {
    let mut taken: Vec<Duration> = (0..times)
        .map(|_| {
            let start = now();
            work();
            now() - start
        })
        .collect();
    taken.sort();
    taken[times / 2]
}

/// The time; with `CPU_TIME` set, that of the thread alone, for one-thread runs on a busy host.
fn now() -> Duration {
    let cpu = std::env::var_os("CPU_TIME").is_some();
    let clock = if cpu { libc::CLOCK_THREAD_CPUTIME_ID } else { libc::CLOCK_MONOTONIC };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the one value that is written.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn random(count: usize) -> Vec<f32> {
    let mut state = 1u64;
    (0..count).map(|_| (step(&mut state) >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
}

fn random_blocks(kind: Kind, numbers: usize) -> Vec<u8> {
    let (span, bytes, halves): (usize, usize, &[usize]) = match kind {
        Kind::Q4K => (256, 144, &[0, 2]),
        Kind::Q6K => (256, 210, &[208]),
        Kind::Q8_0 => (32, 34, &[0]),
        Kind::Q5_0 => (32, 22, &[0]),
    };
    let mut state = 2u64;
    let mut raw: Vec<u8> = (0..numbers / span * bytes).map(|_| (step(&mut state) >> 40) as u8).collect();
    for block in raw.chunks_exact_mut(bytes) {
        halves.iter().for_each(|&at| block[at..at + 2].copy_from_slice(&half::f16::from_f32(0.01).to_le_bytes()));
    }
    raw
}

fn step(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_string()
}
