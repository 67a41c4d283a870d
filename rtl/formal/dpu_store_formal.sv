// Proof of dpu_store: AXI rules of its write channels, each response awaited, bytes written only where the burst says.
// Any words, regions and ports; `stop_i` at any time. Small buffers; `Ahead` and `Bursts` bursts open.
// Assumed of memory: a response comes only for a burst whose address and last beat it took.

module dpu_store_formal
  import dpu_dma_pkg::*;
#(
  parameter int unsigned Ahead  = 2,
  parameter int unsigned Bursts = 2,
  parameter bit          Whole  = 1'b0  // the burst generator's part is checked too, not assumed
) (
  input logic                   clk_i,
  input logic                   stop_i,
  input logic                   start_valid_i,
  input dpu_pkg::word_t         word_i,
  input logic [31:0]            index_i,
  input dpu_pkg::region_t [7:0] regions_i,
  input logic                   aw_ready_i,
  input logic                   w_ready_i,
  input logic                   b_valid_i,
  input logic [1:0]             b_resp_i,
  input logic                   act_rd_ready_i,
  input logic                   vbuf_rd_ready_i,
  input logic                   param_rd_ready_i
);

  logic               rst_ni, quiet, start_ready, done, aw_valid, w_valid, w_last, b_ready;
  dpu_pkg::axi_addr_t aw_addr;
  logic [7:0]         aw_len;
  logic [63:0]        w_strb;
  dpu_pkg::fault_t    fault;

  dpu_formal_reset u_reset (.clk_i, .rst_no(rst_ni));
  // Waiver: what is not looked at is left open, so that the solver does not see it.
  dpu_store #(
    .Cols(8), .Lanes(8), .ActWords(16), .VbufWords(16), .ParamWords(64), .Ahead(Ahead), .Bursts(Bursts)
  ) dut (
    .clk_i, .rst_ni, .stop_i, .quiet_o(quiet), .start_valid_i, .start_ready_o(start_ready), .word_i, .index_i,
    .done_o(done), .busy_o(), .stall_o(), .fault_o(fault), .regions_i, .aw_valid_o(aw_valid), .aw_addr_o(aw_addr),
    .aw_len_o(aw_len), .aw_ready_i, .w_valid_o(w_valid), .w_data_o(), .w_strb_o(w_strb), .w_last_o(w_last), .w_ready_i,
    .b_valid_i, .b_resp_i, .b_ready_o(b_ready), .act_rd_valid_o(), .act_rd_addr_o(), .act_rd_ready_i,
    .act_rd_data_i('0), .vbuf_rd_valid_o(), .vbuf_rd_addr_o(), .vbuf_rd_ready_i, .vbuf_rd_data_i('0),
    .param_rd_valid_o(), .param_rd_addr_o(), .param_rd_ready_i, .param_rd_data_i('0), .written_bytes_o()
  );

  // Memory: lengths of the bursts whose address it took and whose data it still gets, oldest first.
  localparam int unsigned Most = Ahead + 1;
  logic [Most-1:0][7:0] len_q;
  logic [7:0]           aw_q, w_q, b_q;  // bursts: addresses taken, last beats taken, responses given
  logic [7:0]           sent_q, owing, len_last_q;
  logic                 asked, beat, answered, aw_wait_q, w_wait_q, last_q, stop_q;
  logic [63:0]          strb_q;
  dpu_pkg::axi_addr_t   addr_q;
  assign asked    = aw_valid & aw_ready_i;
  assign beat     = w_valid & w_ready_i;
  assign answered = b_valid_i & b_ready;
  assign owing    = aw_q - w_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      {aw_q, w_q, b_q, sent_q} <= '0;
      {aw_wait_q, w_wait_q, stop_q} <= '0;
    end else begin
      aw_q      <= aw_q + 8'(asked);
      w_q       <= w_q + 8'(beat & w_last);
      b_q       <= b_q + 8'(answered);
      sent_q    <= beat ? (w_last ? '0 : sent_q + 8'd1) : sent_q;
      aw_wait_q <= aw_valid & ~aw_ready_i;
      w_wait_q  <= w_valid & ~w_ready_i;
      stop_q    <= stop_q | stop_i;
    end
  end
  always_ff @(posedge clk_i) begin
    {addr_q, len_last_q, strb_q, last_q} <= {aw_addr, aw_len, w_strb, w_last};
    for (int unsigned i = 0; i < Most; i++) begin
      if (asked && owing - 8'(beat & w_last) == 8'(i)) len_q[i] <= aw_len;
      else if (beat && w_last && i + 1 < Most) len_q[i] <= len_q[(i + 1) % Most];
    end
  end

  // For induction. The bursts in `u_beats` are those that memory waits for, but one whose last beat waits in its register.
  function automatic logic [7:0] length(input logic [18:0] burst);  // beats_t: first, bytes
    return 8'((14'(burst[18:13]) + 14'(burst[12:0]) - 14'd1) >> 6);
  endfunction
  logic [1:0][18:0] entry;  // oldest first
  logic [1:0]       held_none;
  logic [7:0]       entries, made, responses;
  logic             last_waits;
  for (genvar i = 0; i < 2; i++) begin : gen_entry
    assign entry[i]     = 19'(dut.u_beats.mem[dut.u_beats.rd_ptr_q + 1'(i)]);
    // response_t: none, code, slot, last, address
    assign held_none[i] = dut.u_open.mem[dut.u_open.rd_ptr_q + 1'(i)][75];
  end
  assign entries    = 8'(dut.u_beats.count_q);
  assign last_waits = w_valid & w_last;
  assign made       = last_waits ? '0 : sent_q + 8'(w_valid);  // beats of the oldest burst in `u_beats`
  assign responses  = 8'(dut.u_open.count_q >= 2'd1 && !held_none[0]) + 8'(dut.u_open.count_q == 2'd2 && !held_none[1]);

  always_comb begin
    if (rst_ni) begin
      // proved of dpu_dma_bursts behind dpu_dma_check
      if (!Whole) assume (!(dut.gen_valid && !dut.gen.none) || dut.gen_beats.bytes != '0);
      assume (!b_valid_i || b_q != w_q);
      assume (!stop_q || stop_i);

      AwStays: assert (!aw_wait_q || (aw_valid && aw_addr == addr_q && aw_len == len_last_q));
      AwAligned: assert (!aw_valid || (aw_addr[5:0] == '0 && aw_len < 8'd64));
      AwInPage: assert (!aw_valid || 9'(aw_addr[11:6]) + 9'(aw_len) < 9'd64);
      WStays: assert (!w_wait_q || (w_valid && w_strb == strb_q && w_last == last_q));
      DataStay: assert (!(w_valid && !w_ready_i) || !dut.pop_valid);  // the ring's word changes only behind a pop
      AfterAddress: assert (!w_valid || owing != '0);
      LastBeat: assert (!beat || w_last == (sent_q == len_q[0]));
      Strobed: assert (!w_valid || dut.halt || w_strb != '0);
      FirstByte: assert (!dut.beat || dut.inside_q || dut.pop_count <= 7'd64 - 7'(dut.beats.first));
      Awaited: assert (!quiet || (aw_q == b_q && !aw_valid && !w_valid));
      ResponseTaken: assert (!(b_q != w_q) || b_ready || dut.open.none);
      RingNoOverflow: assert (!dut.read_q || 32'(dut.level) <= 32'(dut.RingBytes - dut.RowBytes));
      RingNoUnderflow: assert (!dut.pop_valid || 32'(dut.pop_count) <= 32'(dut.level));
      AheadRoom: assert (!dut.aw_fire || dut.beats_count < 2'(Ahead));
      Held: assert (!Whole || (dut.held_q <= 3'd4 && !(done && dut.held_q == '0)));
      OneFault: assert (!Whole || !(done && fault.valid));
      // for induction
      Entries: assert (8'(entries + 8'(last_waits)) == owing && entries <= 8'd2 && owing <= 8'd2 && dut.u_open.count_q <= 2'd2);
      Lengths: assert ((entries < 8'd1 || len_q[last_waits ? 1 : 0] == length(entry[0])) &&
                       (entries < 8'd2 || len_q[1] == length(entry[1])));
      NotEmpty: assert ((entries < 8'd1 || (entry[0][12:0] != '0 && 14'(entry[0][18:13]) + 14'(entry[0][12:0]) <= 14'd4096)) &&
                        (entries < 8'd2 || (entry[1][12:0] != '0 && 14'(entry[1][18:13]) + 14'(entry[1][12:0]) <= 14'd4096)));
      Register: assert (!aw_valid || (aw_len == length(19'(dut.aw_beats_q)) && dut.aw_beats_q.bytes != '0 &&
                        14'({aw_addr[11:6], dut.aw_beats_q.first}) + 14'(dut.aw_beats_q.bytes) <= 14'd4096));
      Place: assert (dut.inside_q == (made != '0) && (!last_waits || sent_q == len_q[0]));
      Rest: assert (!dut.inside_q || (entries != '0 && made <= len_q[0] && dut.left_q != '0 && dut.left_q <= 13'd4095 &&
                    8'((14'(dut.left_q) + 14'd63) >> 6) == len_q[0] + 8'd1 - made));
      Claimed: assert (32'(dut.claimed_q) == 32'(dut.level) + (dut.read_q ? 32'(dut.read_bytes_q) : 32'd0) &&
                       32'(dut.claimed_q) <= 32'(dut.RingBytes) && (!dut.read_q || dut.read_bytes_q <= 7'd64));
      Responses: assert (responses == 8'(aw_q - b_q) + 8'(aw_valid) && 8'(aw_q - b_q) <= 8'd2 && 8'(w_q - b_q) <= 8'(aw_q - b_q));
      Ends: assert (8'(dut.u_beats.wr_ptr_q) == 8'(1'(8'(dut.u_beats.rd_ptr_q) + entries)) &&
                    8'(dut.u_open.wr_ptr_q) == 8'(1'(8'(dut.u_open.rd_ptr_q) + 8'(dut.u_open.count_q))));
      CoverBurst: cover (beat && w_last && sent_q == 8'd1);
      CoverDone: cover (done && b_q == 8'd1);
      CoverFault: cover (fault.valid && fault.code == dpu_isa_pkg::ErrorRegion);
      CoverStopped: cover (stop_q && beat && w_strb == '0);
      CoverBothWait: cover (aw_wait_q && w_wait_q);
    end
  end

endmodule
