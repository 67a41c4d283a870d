// RUN: dpuc opt --passes cut-host %s | filecheck %s

// CHECK:       dpu.host_segments = [{kind = "embedding", entry = "text", input = "ids", output = "ids.embedded", table = "t::tokens", position = "t::places"}, {kind = "pick", entry = "text", ids = "ids", input = "pooled.tokens", output = "pooled", token = 9 : i64}, {kind = "embedding", entry = "one_sample", input = "ids", output = "ids.embedded", table = "t::tokens"}, {kind = "pick", entry = "one_sample", ids = "ids", input = "pooled.tokens", output = "pooled"}]
// CHECK-LABEL: func.func @text
// CHECK-SAME:  (%ids_embedded: tensor<2x5x8xf32> {dpu.name = "ids.embedded"}) -> (tensor<2x5x4xf32> {dpu.name = "pooled.tokens"})
// CHECK-NEXT:  [[W:%.*]] = dpu.param "t::projection"
// CHECK-NEXT:  [[Y:%.*]] = dpu.t.linear %ids_embedded, [[W]] : tensor<2x5x8xf32>, tensor<8x4xf32> -> tensor<2x5x4xf32>
// CHECK-NEXT:  func.return [[Y]]
func.func @text(%ids: tensor<2x5xi64> {dpu.name = "ids"}) -> (tensor<2x4xf32> {dpu.name = "pooled"}) {
  %tokens = dpu.param "t::tokens" : tensor<10x8xf32>
  %places = dpu.param "t::places" : tensor<1x5x8xf32>
  %w = dpu.param "t::projection" : tensor<8x4xf32>
  %end = dpu.t.constant dense<9> : tensor<i64>
  %rows = dpu.t.constant dense<[[0], [1]]> : tensor<2x1xi64>
  %e = dpu.t.gather %tokens at %ids axis 0 : tensor<10x8xf32>, tensor<2x5xi64> -> tensor<2x5x8xf32>
  %x = dpu.t.add %e, %places : tensor<2x5x8xf32>, tensor<1x5x8xf32> -> tensor<2x5x8xf32>
  %is = dpu.t.equal %ids, %end : tensor<2x5xi64>, tensor<i64> -> tensor<2x5xi1>
  %i = dpu.t.cast %is : tensor<2x5xi1> -> tensor<2x5xi32>
  %m = dpu.t.argmax %i axis 1 : tensor<2x5xi32> -> tensor<2xi64>
  %u = dpu.t.reshape %m : tensor<2xi64> -> tensor<2x1xi64>
  %at = dpu.t.concat %rows, %u axis 1 : tensor<2x1xi64>, tensor<2x1xi64> -> tensor<2x2xi64>
  %p = dpu.t.gather_nd %x at %at : tensor<2x5x8xf32>, tensor<2x2xi64> -> tensor<2x8xf32>
  %y = dpu.t.linear %p, %w : tensor<2x8xf32>, tensor<8x4xf32> -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// Nothing to look up: nothing changes.
// CHECK-LABEL: func.func @image
// CHECK-NEXT:  dpu.t.silu %x
func.func @image(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %y = dpu.t.silu %x : tensor<2x4xf32> -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// Of one sample the rows of all samples are its own; here the end of text is the highest id. Rows from the third on
// are no positions: that sum stays.
// CHECK-LABEL: func.func @one_sample
// CHECK-SAME:  (%ids_embedded: tensor<1x5x8xf32> {dpu.name = "ids.embedded"}) -> (tensor<1x5x8xf32> {dpu.name = "hidden"}, tensor<1x5x4xf32> {dpu.name = "pooled.tokens"})
// CHECK:       [[X:%.*]] = dpu.t.add %ids_embedded
// CHECK:       dpu.t.linear [[X]]
func.func @one_sample(%ids: tensor<1x5xi64> {dpu.name = "ids"}) -> (tensor<1x5x8xf32> {dpu.name = "hidden"}, tensor<1x4xf32> {dpu.name = "pooled"}) {
  %tokens = dpu.param "t::tokens" : tensor<10x8xf32>
  %places = dpu.param "t::places" via ["rows:2:7"] : tensor<5x8xf32>
  %w = dpu.param "t::projection" : tensor<8x4xf32>
  %e = dpu.t.gather %tokens at %ids axis 0 : tensor<10x8xf32>, tensor<1x5xi64> -> tensor<1x5x8xf32>
  %x = dpu.t.add %e, %places : tensor<1x5x8xf32>, tensor<5x8xf32> -> tensor<1x5x8xf32>
  %f = dpu.t.reshape %x : tensor<1x5x8xf32> -> tensor<5x8xf32>
  %m = dpu.t.argmax %ids axis 1 : tensor<1x5xi64> -> tensor<1xi64>
  %p = dpu.t.gather %f at %m axis 0 : tensor<5x8xf32>, tensor<1xi64> -> tensor<1x8xf32>
  %y = dpu.t.linear %p, %w : tensor<1x8xf32>, tensor<8x4xf32> -> tensor<1x4xf32>
  func.return %x, %y : tensor<1x5x8xf32>, tensor<1x4xf32>
}
