// RUN: dpuc opt --passes canonicalise %s | filecheck %s

// An image becomes pixels x channels; the reshapes and transposes around attention are only another way to look at it.
// CHECK-LABEL: func.func @block
// CHECK-SAME:  (%x: tensor<2x16x8xf32> {dpu.name = "x", dpu.layout = "NCHW", dpu.shape = array<i64: 2, 8, 4, 4>})
// CHECK:       [[C:%.*]] = dpu.conv %x, {{.*}} size 4{{.*}} x 4{{.*}} stride 1{{.*}} {pad = array<i64: 1, 1, 1, 1>} : tensor<2x16x8xf32>, tensor<128x8x3x3xf32> -> tensor<2x16x128xf32>
// CHECK:       [[Q:%.*]] = dpu.linear [[C]], {{%.*}} : tensor<2x16x128xf32>, tensor<128x128xf32> -> tensor<2x16x128xf32>
// CHECK-NEXT:  [[A:%.*]] = dpu.attention [[Q]], [[Q]], [[Q]] heads 2{{.*}} scale {{.*}} key_block 1024{{.*}} prob_bits 8
// CHECK-NEXT:  dpu.add [[A]], [[C]] : tensor<2x16x128xf32>, tensor<2x16x128xf32> -> tensor<2x16x128xf32>
// CHECK-NOT:   dpu.t.
func.func @block(%x: tensor<2x8x4x4xf32> {dpu.name = "x"}) -> tensor<2x128x4x4xf32> {
  %w = dpu.param "m::conv" : tensor<128x8x3x3xf32>
  %wq = dpu.param "m::q" : tensor<128x128xf32>
  %c = dpu.t.conv %x, %w {stride = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>} : tensor<2x8x4x4xf32>, tensor<128x8x3x3xf32> -> tensor<2x128x4x4xf32>
  %p = dpu.t.transpose %c {perm = array<i64: 0, 2, 3, 1>} : tensor<2x128x4x4xf32> -> tensor<2x4x4x128xf32>
  %r = dpu.t.reshape %p : tensor<2x4x4x128xf32> -> tensor<2x16x128xf32>
  %q = dpu.t.linear %r, %wq : tensor<2x16x128xf32>, tensor<128x128xf32> -> tensor<2x16x128xf32>
  %h = dpu.t.reshape %q : tensor<2x16x128xf32> -> tensor<2x16x2x64xf32>
  %t = dpu.t.transpose %h {perm = array<i64: 0, 2, 1, 3>} : tensor<2x16x2x64xf32> -> tensor<2x2x16x64xf32>
  %a = dpu.t.attention %t, %t, %t scale 0.125 : tensor<2x2x16x64xf32>, tensor<2x2x16x64xf32>, tensor<2x2x16x64xf32> -> tensor<2x2x16x64xf32>
  %u = dpu.t.transpose %a {perm = array<i64: 0, 2, 1, 3>} : tensor<2x2x16x64xf32> -> tensor<2x16x2x64xf32>
  %v = dpu.t.reshape %u : tensor<2x16x2x64xf32> -> tensor<2x4x4x128xf32>
  %i = dpu.t.transpose %v {perm = array<i64: 0, 3, 1, 2>} : tensor<2x4x4x128xf32> -> tensor<2x128x4x4xf32>
  %y = dpu.t.add %i, %c : tensor<2x128x4x4xf32>, tensor<2x128x4x4xf32> -> tensor<2x128x4x4xf32>
  func.return %y : tensor<2x128x4x4xf32>
}

// A row of scalars in, one embedding each; the timestep is one for all samples.
// CHECK-LABEL: func.func @sizes
// CHECK:       dpu.sinusoid %ids half 4{{.*}} : tensor<2x1x6xf32> -> tensor<2x1x48xf32>
// CHECK:       dpu.sinusoid %t half 4{{.*}} : tensor<1x1x1xf32> -> tensor<2x1x8xf32>
// CHECK:       dpu.concat {{.*}} -> tensor<2x1x56xf32>
func.func @sizes(%ids: tensor<2x6xf32>, %t: tensor<1xf32>) -> tensor<2x56xf32> {
  %0 = dpu.t.reshape %ids : tensor<2x6xf32> -> tensor<12x1xf32>
  %1 = dpu.t.sinusoid %0 half 4 : tensor<12x1xf32> -> tensor<12x8xf32>
  %2 = dpu.t.reshape %1 : tensor<12x8xf32> -> tensor<2x48xf32>
  %3 = dpu.t.expand %t : tensor<1xf32> -> tensor<2xf32>
  %4 = dpu.t.reshape %3 : tensor<2xf32> -> tensor<2x1xf32>
  %5 = dpu.t.sinusoid %4 half 4 : tensor<2x1xf32> -> tensor<2x8xf32>
  %6 = dpu.t.concat %2, %5 axis 1 : tensor<2x48xf32>, tensor<2x8xf32> -> tensor<2x56xf32>
  func.return %6 : tensor<2x56xf32>
}

// Canonical functions stay as they are.
// CHECK-LABEL: func.func @already
// CHECK-SAME:  (%x: tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
func.func @already(%x: tensor<2x16x8xf32>) -> tensor<2x16x8xf32> {
  %y = dpu.silu %x : tensor<2x16x8xf32> -> tensor<2x16x8xf32>
  func.return %y : tensor<2x16x8xf32>
}

// One order whatever the file's: of the two sides of a sum the longer one first; what nobody needs is gone.
// CHECK-LABEL: func.func @ordered
// CHECK:       [[A:%.*]] = dpu.linear %x
// CHECK-NEXT:  [[S:%.*]] = dpu.silu [[A]]
// CHECK:       [[B:%.*]] = dpu.linear %x
// CHECK-NEXT:  dpu.add [[B]], [[S]]
// CHECK-NOT:   dpu.gelu
func.func @ordered(%x: tensor<2x3x8xf32>) -> tensor<2x3x4xf32> {
  %w = dpu.param "m::w" : tensor<8x4xf32>
  %v = dpu.param "m::v" : tensor<8x4xf32>
  %b = dpu.t.linear %x, %v : tensor<2x3x8xf32>, tensor<8x4xf32> -> tensor<2x3x4xf32>
  %g = dpu.t.gelu %x : tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %a = dpu.t.linear %x, %w : tensor<2x3x8xf32>, tensor<8x4xf32> -> tensor<2x3x4xf32>
  %s = dpu.t.silu %a : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  %y = dpu.t.add %b, %s : tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  func.return %y : tensor<2x3x4xf32>
}
