// RUN: dpuc opt --passes lower-to-tile %s | filecheck %s

// A program that is lowered already stays.
// CHECK:       tile.program "done" {
// CHECK-NEXT:  tile.section tile 0 : i64 op 7
// CHECK-NEXT:  }
tile.program "done" {
  tile.section tile 0 : i64 op 7 : i64 stream 0 : i64 step 0 : i64 phase "main" name "/done"
}

// Sixteen pixels in two streams of two rows: load, multiply, scale, store.
// CHECK:       tile.program "conv" {
// CHECK:       [[X:%\d+]] = tile.dram "x" "i8" row 64 : i64 kind "io"
// CHECK:       [[Y:%\d+]] = tile.dram "y" "f16" row 64 : i64 kind "io"
// CHECK:       tile.section tile 0 : i64 op 1 : i64 stream 0 : i64 step 0 : i64 phase "prologue" name "conv/dpu.q.conv"
// CHECK-NEXT:  [[IN:%\d+]] = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"act">
// CHECK-NEXT:  tile.load dst([[IN]]) src([[X]]) <inner = 8, n = [4, 2, 1]
// CHECK-NEXT:  tile.section tile 0 : i64 op 1 : i64 stream 0 : i64 step 0 : i64 phase "main"
// CHECK-NEXT:  [[ACC:%\d+]] = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"acc">
// CHECK-NEXT:  [[W:%\d+]] = tile.alloc 8 : i64 at -1 : i64 : !tile.buffer<"wgt">
// CHECK-NEXT:  tile.load dst([[W]])
// CHECK-NEXT:  tile.mm act([[IN]]) wgt([[W]]) acc([[ACC]]) <ny = 2, nx = 4
// CHECK:       tile.vec a([[ACC]]) d([[OUT:%\d+]])
// CHECK:       tile.store src([[OUT]]) dst([[Y]])
// CHECK:       tile.section tile 0 : i64 op 1 : i64 stream 1 : i64 step 1000 : i64 phase "prologue"
// CHECK-NOT:   func.func
func.func @conv(%x: tensor<1x16x8xi8> {dpu.name = "x"}) -> tensor<1x16x8xf16> {
  %w = dpu.param "w" : tensor<8x8x1x1xf16>
  %y = dpu.q.conv %x, %w size 4 x 4 stride 1 {pad = array<i64: 0, 0, 0, 0>, x_scale = 0.5 : f32} : tensor<1x16x8xi8>, tensor<8x8x1x1xf16> -> tensor<1x16x8xf16>
  func.return %y : tensor<1x16x8xf16>
}
