// RUN: dpuc opt --passes plan-scratchpad %s | filecheck %s

// ACC of dpu_tiny holds 2,048 words in four banks of 512. The next buffer goes behind the last one, at the start of a
// bank; the third finds its place where the first has died. Buffers of another scratchpad are placed on their own.
// CHECK-LABEL: tile.program "ring"
// CHECK:       tile.alloc 500 : i64 at 0 : i64 : !tile.buffer<"acc">
// CHECK:       tile.alloc 1100 : i64 at 512 : i64 : !tile.buffer<"acc">
// CHECK:       tile.alloc 512 : i64 at 0 : i64 : !tile.buffer<"acc">
// CHECK:       tile.alloc 5 : i64 at 0 : i64 : !tile.buffer<"param">
tile.program "ring" {
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op"
  %w = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %x = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"act">
  %a = tile.alloc 500 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x) wgt(%w) acc(%a) <ny = 1, nx = 1, nc = 1, nn = 1, nky = 1, nkx = 1>
  %b = tile.alloc 1100 : i64 at -1 : i64 : !tile.buffer<"acc">
  %c = tile.alloc 512 : i64 at -1 : i64 : !tile.buffer<"acc">
  tile.mm act(%x) wgt(%w) acc(%b) <ny = 1, nx = 1, nc = 1, nn = 1, nky = 1, nkx = 1>
  tile.mm act(%x) wgt(%w) acc(%c) <ny = 1, nx = 1, nc = 1, nn = 1, nky = 1, nkx = 1>
  %d = tile.alloc 5 : i64 at -1 : i64 : !tile.buffer<"param">
}

// All live on: the third takes what is left behind the second.
// CHECK-LABEL: tile.program "full"
// CHECK:       tile.alloc 1000 : i64 at 0 : i64
// CHECK:       tile.alloc 2000 : i64 at 1000 : i64
// CHECK:       tile.alloc 1096 : i64 at 3000 : i64
tile.program "full" {
  tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/op"
  %a = tile.alloc 1000 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %b = tile.alloc 2000 : i64 at -1 : i64 : !tile.buffer<"wgt">
  %c = tile.alloc 1096 : i64 at -1 : i64 : !tile.buffer<"wgt">
  tile.load dst(%a) <format = 4, inner = 8, n = [1, 1, 1]>
  tile.load dst(%b) <format = 4, inner = 8, n = [1, 1, 1]>
  tile.load dst(%c) <format = 4, inner = 8, n = [1, 1, 1]>
}

// A graph function has no buffers: it stays.
// CHECK-LABEL: func.func @graph
// CHECK-NEXT:  dpu.q.silu
// CHECK-NEXT:  func.return
func.func @graph(%x: tensor<1x16x8xf16>) -> tensor<1x16x8xf16> {
  %y = dpu.q.silu %x : tensor<1x16x8xf16> -> tensor<1x16x8xf16>
  func.return %y : tensor<1x16x8xf16>
}
