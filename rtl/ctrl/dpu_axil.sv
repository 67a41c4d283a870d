// AXI4-Lite slave: turns the host's accesses into single writes and reads of 32-bit registers.
// Write address and data come in any order; one write and one read are open at a time; the answer is always OKAY.
// A read is one cycle of `rd_valid_o`; its data are taken two cycles later.

module dpu_axil #(
  parameter int unsigned AddrW = 14
) (
  input  logic             clk_i,
  input  logic             rst_ni,

  input  logic             awvalid_i,
  output logic             awready_o,
  input  logic [AddrW-1:0] awaddr_i,
  input  logic             wvalid_i,
  output logic             wready_o,
  input  logic [31:0]      wdata_i,
  input  logic [3:0]       wstrb_i,
  output logic             bvalid_o,
  input  logic             bready_i,
  output logic [1:0]       bresp_o,
  input  logic             arvalid_i,
  output logic             arready_o,
  input  logic [AddrW-1:0] araddr_i,
  output logic             rvalid_o,
  input  logic             rready_i,
  output logic [31:0]      rdata_o,
  output logic [1:0]       rresp_o,

  // registers, by word
  output logic             wr_valid_o,
  output logic [AddrW-1:2] wr_addr_o,
  output logic [31:0]      wr_data_o,
  output logic [31:0]      wr_mask_o,  // bits to write, from the byte strobes
  output logic             rd_valid_o,
  output logic [AddrW-1:2] rd_addr_o,
  input  logic [31:0]      rd_data_i
);

  // Writes.

  logic             aw_q, w_q, b_q;
  logic [AddrW-1:2] aw_addr_q;
  logic [31:0]      w_data_q;
  logic [3:0]       w_strb_q;

  assign awready_o  = ~aw_q;
  assign wready_o   = ~w_q;
  assign bvalid_o   = b_q;
  assign bresp_o    = 2'b00;
  assign wr_valid_o = aw_q & w_q & (~b_q | bready_i);
  assign wr_addr_o  = aw_addr_q;
  assign wr_data_o  = w_data_q;

  for (genvar i = 0; i < 4; i++) begin : gen_mask
    assign wr_mask_o[8*i+:8] = {8{w_strb_q[i]}};
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      aw_q      <= 1'b0;
      w_q       <= 1'b0;
      b_q       <= 1'b0;
      aw_addr_q <= '0;
      w_data_q  <= '0;
      w_strb_q  <= '0;
    end else begin
      if (awvalid_i && awready_o) begin
        aw_q      <= 1'b1;
        aw_addr_q <= awaddr_i[AddrW-1:2];
      end else if (wr_valid_o) begin
        aw_q <= 1'b0;
      end
      if (wvalid_i && wready_o) begin
        w_q      <= 1'b1;
        w_data_q <= wdata_i;
        w_strb_q <= wstrb_i;
      end else if (wr_valid_o) begin
        w_q <= 1'b0;
      end
      if (wr_valid_o) b_q <= 1'b1;
      else if (bready_i) b_q <= 1'b0;
    end
  end

  // Reads.

  typedef enum logic [1:0] {
    ReadIdle,
    ReadLookup,
    ReadTake,
    ReadAnswer
  } read_e;

  read_e            read_q;
  logic [31:0]      r_data_q;

  assign arready_o  = read_q == ReadIdle;
  assign rvalid_o   = read_q == ReadAnswer;
  assign rdata_o    = r_data_q;
  assign rresp_o    = 2'b00;
  assign rd_valid_o = arvalid_i & arready_o;
  assign rd_addr_o  = araddr_i[AddrW-1:2];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      read_q   <= ReadIdle;
      r_data_q <= '0;
    end else begin
      unique case (read_q)
        ReadIdle: if (arvalid_i) read_q <= ReadLookup;
        ReadLookup: read_q <= ReadTake;
        ReadTake: begin
          read_q   <= ReadAnswer;
          r_data_q <= rd_data_i;
        end
        ReadAnswer: if (rready_i) read_q <= ReadIdle;
        default: read_q <= ReadIdle;
      endcase
    end
  end

  // The two lowest address bits are those of a byte in its register.
  logic unused;
  assign unused = ^{awaddr_i[1:0], araddr_i[1:0]};

endmodule
