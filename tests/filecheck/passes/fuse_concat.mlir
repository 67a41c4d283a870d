// RUN: dpuc opt --passes fuse-concat %s | filecheck %s

// Both readers of the concatenation take two sources, so it goes.
// CHECK-LABEL: func.func @both
// CHECK-NEXT:  dpu.group_norm %a concat %b : tensor<1x16x4xf32>, %g, %g
// CHECK-NEXT:  dpu.conv %a concat %b : tensor<1x16x4xf32>, %w
// CHECK-NEXT:  func.return
func.func @both(%a: tensor<1x16x8xf32>, %b: tensor<1x16x4xf32>, %g: tensor<12xf32>, %w: tensor<8x12x1x1xf32>) -> (tensor<1x16x12xf32>, tensor<1x16x8xf32>) {
  %c = dpu.concat %a, %b : tensor<1x16x8xf32>, tensor<1x16x4xf32> -> tensor<1x16x12xf32>
  %n = dpu.group_norm %c, %g, %g groups 4 : i64 eps 1.0e-05 : f32 : tensor<1x16x12xf32>, tensor<12xf32>, tensor<12xf32> -> tensor<1x16x12xf32>
  %y = dpu.conv %c, %w size 4 : i64 x 4 : i64 stride 1 : i64 {pad = array<i64: 0, 0, 0, 0>} : tensor<1x16x12xf32>, tensor<8x12x1x1xf32> -> tensor<1x16x8xf32>
  func.return %n, %y : tensor<1x16x12xf32>, tensor<1x16x8xf32>
}

// CHECK-LABEL: func.func @linear
// CHECK-NEXT:  dpu.linear %a concat %b : tensor<1x16x4xf32>, %w
func.func @linear(%a: tensor<1x16x8xf32>, %b: tensor<1x16x4xf32>, %w: tensor<12x8xf32>) -> tensor<1x16x8xf32> {
  %c = dpu.concat %a, %b : tensor<1x16x8xf32>, tensor<1x16x4xf32> -> tensor<1x16x12xf32>
  %y = dpu.linear %c, %w : tensor<1x16x12xf32>, tensor<12x8xf32> -> tensor<1x16x8xf32>
  func.return %y : tensor<1x16x8xf32>
}

// Other readers keep the concatenation.
// CHECK-LABEL: func.func @other
// CHECK-NEXT:  dpu.concat
// CHECK-NEXT:  dpu.silu
func.func @other(%a: tensor<1x16x8xf32>, %b: tensor<1x16x4xf32>) -> tensor<1x16x12xf32> {
  %c = dpu.concat %a, %b : tensor<1x16x8xf32>, tensor<1x16x4xf32> -> tensor<1x16x12xf32>
  %y = dpu.silu %c : tensor<1x16x12xf32> -> tensor<1x16x12xf32>
  func.return %y : tensor<1x16x12xf32>
}
