// RUN: dpuc opt --passes fold-upsample %s | filecheck %s

// CHECK-LABEL: func.func @fold
// CHECK-NEXT:  dpu.conv %x, %w size 4{{.*}} x 4{{.*}} stride 1{{.*}} upsample {pad = array<i64: 1, 1, 1, 1>} : tensor<1x16x8xf32>, tensor<8x8x3x3xf32> -> tensor<1x64x8xf32>
// CHECK-NEXT:  func.return
func.func @fold(%x: tensor<1x16x8xf32>, %w: tensor<8x8x3x3xf32>) -> tensor<1x64x8xf32> {
  %u = dpu.upsample %x size 4 : i64 x 4 : i64 : tensor<1x16x8xf32> -> tensor<1x64x8xf32>
  %y = dpu.conv %u, %w size 8 : i64 x 8 : i64 stride 1 : i64 {pad = array<i64: 1, 1, 1, 1>} : tensor<1x64x8xf32>, tensor<8x8x3x3xf32> -> tensor<1x64x8xf32>
  func.return %y : tensor<1x64x8xf32>
}

// A 1x1 convolution has no neighbours to fold over.
// CHECK-LABEL: func.func @pointwise
// CHECK:       dpu.upsample
func.func @pointwise(%x: tensor<1x16x8xf32>, %w: tensor<8x8x1x1xf32>) -> tensor<1x64x8xf32> {
  %u = dpu.upsample %x size 4 : i64 x 4 : i64 : tensor<1x16x8xf32> -> tensor<1x64x8xf32>
  %y = dpu.conv %u, %w size 8 : i64 x 8 : i64 stride 1 : i64 {pad = array<i64: 0, 0, 0, 0>} : tensor<1x64x8xf32>, tensor<8x8x1x1xf32> -> tensor<1x64x8xf32>
  func.return %y : tensor<1x64x8xf32>
}
