// RUN: dpuc opt --passes split-entries %s | filecheck %s

// The time path and the text path become functions; the sinusoid runs on the host.
// CHECK:       dpu.host_segments = [{kind = "sinusoid", entry = "time", input = "t", output = "t.sinusoid", half = 4 : i64}]
// CHECK-LABEL: func.func @time
// CHECK-SAME:  (%t_sinusoid: tensor<2x1x8xf32> {dpu.name = "t.sinusoid"}) -> (tensor<2x1x4xf32> {dpu.name = "emb"})
// CHECK:       dpu.linear %t_sinusoid
// CHECK-LABEL: func.func @context
// CHECK-SAME:  (%text: tensor<2x7x8xf32> {dpu.name = "text"}) -> (tensor<2x7x4xf32> {dpu.name = "to_k"}, tensor<2x7x4xf32> {dpu.name = "to_v"})
// CHECK-LABEL: func.func @unet
// CHECK-SAME:  (%x: tensor<2x16x4xf32> {dpu.name = "x"}, %emb: tensor<2x1x4xf32> {dpu.name = "emb"}, %to_k: tensor<2x7x4xf32> {dpu.name = "to_k"}, %to_v: tensor<2x7x4xf32> {dpu.name = "to_v"})
// CHECK-NEXT:  [[A:%.*]] = dpu.attention %x, %to_k, %to_v
// CHECK-NEXT:  dpu.add [[A]], %emb
func.func @unet(%x: tensor<2x16x4xf32> {dpu.name = "x"}, %t: tensor<1x1x1xf32> {dpu.name = "t"}, %text: tensor<2x7x8xf32> {dpu.name = "text"}) -> tensor<2x16x4xf32> {
  %we = dpu.param "u::emb.weight" : tensor<8x4xf32>
  %wk = dpu.param "u::to_k.weight" : tensor<8x4xf32>
  %wv = dpu.param "u::to_v.weight" : tensor<8x4xf32>
  %s = dpu.sinusoid %t half 4 : i64 : tensor<1x1x1xf32> -> tensor<2x1x8xf32>
  %e = dpu.linear %s, %we : tensor<2x1x8xf32>, tensor<8x4xf32> -> tensor<2x1x4xf32>
  %k = dpu.linear %text, %wk : tensor<2x7x8xf32>, tensor<8x4xf32> -> tensor<2x7x4xf32>
  %v = dpu.linear %text, %wv : tensor<2x7x8xf32>, tensor<8x4xf32> -> tensor<2x7x4xf32>
  %a = dpu.attention %x, %k, %v heads 1 : i64 scale 0.5 : f32 key_block 1024 : i64 prob_bits 8 : i64 : tensor<2x16x4xf32>, tensor<2x7x4xf32>, tensor<2x7x4xf32> -> tensor<2x16x4xf32>
  %y = dpu.add %a, %e : tensor<2x16x4xf32>, tensor<2x1x4xf32> -> tensor<2x16x4xf32>
  func.return %y : tensor<2x16x4xf32>
}

// One input: nothing to move.
// CHECK-LABEL: func.func @decoder
// CHECK-SAME:  (%x: tensor<1x16x4xf32>) -> tensor<1x16x4xf32>
func.func @decoder(%x: tensor<1x16x4xf32>) -> tensor<1x16x4xf32> {
  %y = dpu.silu %x : tensor<1x16x4xf32> -> tensor<1x16x4xf32>
  func.return %y : tensor<1x16x4xf32>
}
