// RUN: dpuc opt --passes merge-duplicates %s | filecheck %s

// CHECK-LABEL: func.func @twice
// CHECK-NEXT:  [[A:%.*]] = dpu.silu %x
// CHECK-NEXT:  dpu.add [[A]], [[A]]
// CHECK-NEXT:  func.return
func.func @twice(%x: tensor<2x1x8xf32>) -> tensor<2x1x8xf32> {
  %a = dpu.silu %x : tensor<2x1x8xf32> -> tensor<2x1x8xf32>
  %b = dpu.silu %x : tensor<2x1x8xf32> -> tensor<2x1x8xf32>
  %unread = dpu.gelu %x : tensor<2x1x8xf32> -> tensor<2x1x8xf32>
  %y = dpu.add %a, %b : tensor<2x1x8xf32>, tensor<2x1x8xf32> -> tensor<2x1x8xf32>
  func.return %y : tensor<2x1x8xf32>
}

// Different weights make different values.
// CHECK-LABEL: func.func @different
// CHECK:       dpu.param "m::a"
// CHECK:       dpu.param "m::b"
func.func @different() -> (tensor<8xf32>, tensor<8xf32>) {
  %a = dpu.param "m::a" : tensor<8xf32>
  %b = dpu.param "m::b" : tensor<8xf32>
  func.return %a, %b : tensor<8xf32>, tensor<8xf32>
}
