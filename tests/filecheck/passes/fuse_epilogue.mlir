// RUN: dpuc opt --passes fuse-epilogue %s | filecheck %s

// CHECK-LABEL: func.func @linear
// CHECK-NEXT:  dpu.linear %x, %w residual %r : tensor<2x3x4xf32> act "silu"
// CHECK-NEXT:  func.return
func.func @linear(%x: tensor<2x3x8xf32>, %w: tensor<8x4xf32>, %r: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = dpu.linear %x, %w : tensor<2x3x8xf32>, tensor<8x4xf32> -> tensor<2x3x4xf32>
  %1 = dpu.silu %0 : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  %2 = dpu.add %r, %1 : tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  func.return %2 : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @norm_conv
// CHECK-NEXT:  [[N:%.*]] = dpu.group_norm %x, %g, %g groups 2{{.*}} act "silu"
// CHECK-NEXT:  dpu.conv [[N]], %w temb %e : tensor<1x1x8xf32> residual %x : tensor<1x16x8xf32> size
// CHECK-NEXT:  func.return
func.func @norm_conv(%x: tensor<1x16x8xf32>, %w: tensor<8x8x1x1xf32>, %g: tensor<8xf32>, %e: tensor<1x1x8xf32>) -> tensor<1x16x8xf32> {
  %n = dpu.group_norm %x, %g, %g groups 2 : i64 eps 1.0e-05 : f32 : tensor<1x16x8xf32>, tensor<8xf32>, tensor<8xf32> -> tensor<1x16x8xf32>
  %s = dpu.silu %n : tensor<1x16x8xf32> -> tensor<1x16x8xf32>
  %c = dpu.conv %s, %w size 4 : i64 x 4 : i64 stride 1 : i64 {pad = array<i64: 0, 0, 0, 0>} : tensor<1x16x8xf32>, tensor<8x8x1x1xf32> -> tensor<1x16x8xf32>
  %t = dpu.add %c, %e : tensor<1x16x8xf32>, tensor<1x1x8xf32> -> tensor<1x16x8xf32>
  %y = dpu.add %x, %t : tensor<1x16x8xf32>, tensor<1x16x8xf32> -> tensor<1x16x8xf32>
  func.return %y : tensor<1x16x8xf32>
}

// A second reader needs the value before SiLU; after a residual comes no activation; GEGLU takes no residual.
// CHECK-LABEL: func.func @stays
// CHECK:       dpu.linear %x, %w :
// CHECK:       dpu.silu
// CHECK:       dpu.linear %x, %w residual
// CHECK:       dpu.silu
// CHECK:       dpu.linear %x, %w2 geglu
// CHECK:       dpu.add
func.func @stays(%x: tensor<2x3x8xf32>, %w: tensor<8x4xf32>, %w2: tensor<8x8xf32>, %r: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %0 = dpu.linear %x, %w : tensor<2x3x8xf32>, tensor<8x4xf32> -> tensor<2x3x4xf32>
  %1 = dpu.silu %0 : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  %2 = dpu.linear %x, %w residual %r : tensor<2x3x4xf32> : tensor<2x3x8xf32>, tensor<8x4xf32> -> tensor<2x3x4xf32>
  %3 = dpu.silu %2 : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  %4 = dpu.linear %x, %w2 geglu : tensor<2x3x8xf32>, tensor<8x8xf32> -> tensor<2x3x4xf32>
  %5 = dpu.add %4, %r : tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  func.return %0, %1, %3, %5 : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>
}
